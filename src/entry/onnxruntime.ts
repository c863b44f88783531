/**
 * What onnxruntime-common, onnxruntime-node and onnxruntime-web export beside the session class, under their names: for programs that were
 * written for one of them.
 */
import { InsituError } from "../base/error.js";
import { backends } from "./backends.js";

export { Tensor, type TensorConstructor, type TypedTensor } from "../tensor/tensor.js";
export type { TensorFactory } from "../tensor/onnxruntime-tensor.js";
export { type Env, env } from "./env.js";
export type { InferenceSessionFactory, NonTensorType, OnnxValue, OnnxValueDataLocation } from "./onnxruntime-types.js";

/** The names that sessions take as `executionProviders`; "cpu" is the default. All come with the package. */
export const listSupportedBackends = (): { readonly name: string; readonly bundled: boolean }[] =>
  ["cpu", ...backends.map(({ name }) => name)].map((name) => ({ name, bundled: true }));

/** Accepts a backend for onnxruntime, and never calls it: insitu has its own. */
export function registerBackend(name: string, backend: object, priority: number): void {
  const { init, createInferenceSessionHandler } = (backend ?? {}) as Record<string, unknown>;
  if (typeof init === "function" && typeof createInferenceSessionHandler === "function") return;
  throw new InsituError(
    "invalid-argument",
    `backend ${String(name)} (priority ${String(priority)}) is not a valid backend: it needs init and createInferenceSessionHandler`,
    { as: "TypeError" },
  );
}

/** onnxruntime's traces, which nothing listens to here. */
export const TRACE = (_device: string, _label: string): void => {};
/** A function begins: as `TRACE`. */
export const TRACE_FUNC_BEGIN = (_message?: string): void => {};
/** A function ends: as `TRACE`. */
export const TRACE_FUNC_END = (_message?: string): void => {};
/** An event begins: as `TRACE`. */
export const TRACE_EVENT_BEGIN = (_message?: string): void => {};
/** An event ends: as `TRACE`. */
export const TRACE_EVENT_END = (_message?: string): void => {};
