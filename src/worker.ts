/** `insitu/worker` in browsers: the library behind a Worker; Node resolves to worker.node.ts. */
export * from "./worker/api.js";
export { CausalLM, InferenceSession } from "./worker/web.js";
