/** `insitu/worker` in Node: worker.ts with a worker thread in place of a Worker. */
export * from "#insitu/worker/api.js";
export { CausalLM, EmbeddingModel, InferenceSession } from "#insitu/worker/node.js";
