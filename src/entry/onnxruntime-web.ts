/** All that onnxruntime-web and onnxruntime-common export, in browsers. */
export * from "./onnxruntime.js";
export { InferenceSession } from "./web.js";
