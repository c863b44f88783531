// Small decoders made by code, in the forms that exporters and runtimes give them.
export { styledDecoder } from "./styles/decoder.js";
export { sizesOf, type Style, type StyleSizes } from "./styles/style.js";
