/** Stands in for onnxruntime-node and onnxruntime-common. */
export * from "./entry/onnxruntime-node.js";
export * as default from "./entry/onnxruntime-node.js";
