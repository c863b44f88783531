/** The options of `InferenceSession.create`, insitu's own and onnxruntime's, read into one form. */
import { InsituError } from "../base/error.js";
import type { LoadOptions } from "../onnx/external.js";
import type { Level } from "../passes/optimize.js";

/** The backends by name. */
export type BackendName = "wasm" | "webgpu" | "reference";

/** When caches are updated in place: where proved, always or not at all. */
export type InPlacePolicy = "prefer" | "require" | "never";

/** How a session is made. Options of onnxruntime that insitu has no use for are accepted and ignored. */
export interface SessionOptions extends LoadOptions {
  readonly backend?: BackendName;
  readonly inPlace?: InPlacePolicy;
  readonly threads?: number;
  /** False keeps the WASM backend to plain SIMD. */
  readonly relaxedSimd?: boolean;
  /** onnxruntime's name for `backend`: "cpu" is the default backend. */
  readonly executionProviders?: readonly (string | { readonly name: string })[];
  /** onnxruntime's name for `threads`. */
  readonly intraOpNumThreads?: number;
  /** "disabled" runs the graph as the file has it, "basic" without what is redundant, the others with fused operators. */
  readonly graphOptimizationLevel?: "disabled" | "basic" | "extended" | "layout" | "all";
}

/** The backends this build has, best first. */
export const availableBackends: readonly BackendName[] = ["wasm", "reference"];

/** The options, checked, with defaults filled in. */
export function readOptions(options: SessionOptions): {
  backend: BackendName;
  inPlace: InPlacePolicy;
  threads: number | undefined;
  level: Level;
} {
  const { inPlace = "prefer", graphOptimizationLevel = "all" } = options;
  if (!["disabled", "basic", "extended", "layout", "all"].includes(graphOptimizationLevel)) {
    throw new InsituError(
      "invalid-argument",
      `option graphOptimizationLevel must be "disabled", "basic", "extended", "layout" or "all", got "${graphOptimizationLevel}"`,
    );
  }
  if (!["prefer", "require", "never"].includes(inPlace)) {
    throw new InsituError(
      "invalid-argument",
      `option inPlace must be "prefer", "require" or "never", got "${inPlace}"`,
    );
  }
  const threads = options.threads ?? options.intraOpNumThreads;
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 0)) {
    throw new InsituError("invalid-argument", `option threads must be a whole number, got ${threads}`);
  }
  const level =
    graphOptimizationLevel === "disabled" || graphOptimizationLevel === "basic" ? graphOptimizationLevel : "all";
  return { backend: chooseBackend(options), inPlace, threads: threads === 0 ? undefined : threads, level };
}

function chooseBackend(options: SessionOptions): BackendName {
  if (options.backend !== undefined) {
    if ((availableBackends as readonly string[]).includes(options.backend)) return options.backend;
    throw new InsituError(
      "invalid-argument",
      `option backend must be one of ${availableBackends.map((name) => `"${name}"`).join(", ")}, got "${options.backend}"`,
    );
  }
  // onnxruntime tries its providers in order and ends with the CPU; names that are not here fall through the same way.
  for (const provider of options.executionProviders ?? []) {
    const name = typeof provider === "string" ? provider : provider.name;
    const match = availableBackends.find((backend) => backend === name);
    if (match !== undefined) return match;
  }
  return availableBackends[0];
}
