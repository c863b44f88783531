/** `insitu/worker` in browsers: the library behind a Worker; Node resolves to worker.node.ts. */
export * from "#insitu/worker/api.js";
export { CausalLM, EmbeddingModel, InferenceSession } from "#insitu/worker/web.js";
