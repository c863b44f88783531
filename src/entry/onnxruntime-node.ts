/** All that onnxruntime-node and onnxruntime-common export, in Node. */
export * from "./onnxruntime.js";
export { InferenceSession } from "./node.js";
