/** `insitu/worker` in Node: worker.ts with a worker thread in place of a Worker. */
export * from "./worker/api.js";
export { CausalLM, InferenceSession } from "./worker/node.js";
