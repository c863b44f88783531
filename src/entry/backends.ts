/** The backends of this build, the best first. Each is loaded when a session asks for it. */
import type { BackendChoice } from "../backends/backend.js";

/** The backends by name. */
export type BackendName = "wasm" | "reference";

/** All of them. */
export const backends: readonly (BackendChoice & { readonly name: BackendName })[] = [
  {
    name: "wasm",
    async load() {
      const [{ wasmBackend }, { wasmKernels }] = await Promise.all([
        import("../backends/wasm/wasm.js"),
        import("../ops/wasm.js"),
      ]);
      return wasmBackend(wasmKernels);
    },
  },
  {
    name: "reference",
    lastResort: true,
    load: async () => (await import("../backends/reference/reference.js")).referenceBackend,
  },
];
