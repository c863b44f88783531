/** The public API in browsers and every other place that has fetch; Node resolves to index.node.ts. */
export * from "./entry/api.js";
export { EmbeddingModel } from "./entry/embedding-web.js";
export { CausalLM, InferenceSession, rewrite } from "./entry/web.js";
export { models } from "./platform/web-models.js";
export type { ModelFolder } from "./platform/file-tree.js";
export * as default from "./entry/onnxruntime-web.js";
