// The backends that suites run on: a new one is one line here, with its list of exceptions.
import type { SessionOptions } from "../../src/session/options.js";

/** What a backend does not do as the others, and why. One that starts passing fails the suite. */
export interface Exception {
  /** The name of the case, or its beginning. */
  readonly case: string;
  readonly reason: string;
}

export interface TestedBackend {
  readonly name: "reference" | "wasm";
  readonly options: SessionOptions;
  readonly exceptions: readonly Exception[];
}

/** Every backend, the slow truth first. */
export const backends: readonly TestedBackend[] = [
  { name: "reference", options: { backend: "reference" }, exceptions: [] },
  {
    name: "wasm",
    options: { backend: "wasm", threads: 1 },
    exceptions: ["float16", "bfloat16"].map((type) => ({
      case: `RotaryEmbedding-23: ${type}: products are rounded before they are added`,
      reason: "the kernel rounds once, after the sum: nearer to the exact result than the function body",
    })),
  },
];
