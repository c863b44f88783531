/** Stands in for onnxruntime-web and onnxruntime-common; Node resolves to onnxruntime.node.ts. */
export * from "./entry/onnxruntime-web.js";
export * as default from "./entry/onnxruntime-web.js";
