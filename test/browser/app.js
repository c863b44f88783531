// An application as a bundler sees one: it imports the package by name.
export { InferenceSession, Tensor } from "insitu";
