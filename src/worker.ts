/** `insitu/worker` in browsers: the library behind a Worker; Node resolves to worker.node.ts. */
export * from "#insitu/worker/api.js";
export { CausalLM, InferenceSession } from "#insitu/worker/web.js";
