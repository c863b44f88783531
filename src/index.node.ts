/** The public API in Node: index.ts with files in place of fetch. */
export * from "./entry/api.js";
export { EmbeddingModel } from "./entry/embedding-node.js";
export { CausalLM, InferenceSession, rewrite } from "./entry/node.js";
export { models } from "./platform/node-models.js";
export * as default from "./entry/onnxruntime-node.js";
