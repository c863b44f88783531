/**
 * The backends of this build, the best first. Each is made when a session asks for it. The code of those that need no GPU comes with the entry:
 * what a bundler may put around a dynamic import asks for a document, and workers have none.
 */
import type { Backend, BackendChoice, BackendName } from "../backends/backend.js";
import { referenceBackend } from "../backends/reference/reference.js";
import { Unavailable } from "../backends/unavailable.js";
import { wasmBackend } from "../backends/wasm/wasm.js";
import { wasmKernels } from "../ops/wasm.js";

export type { BackendName } from "../backends/backend.js";

/** All of them. */
export const backends: readonly (BackendChoice & { readonly name: BackendName })[] = [
  { name: "wasm", automatic: 1, load: async () => wasmBackend(wasmKernels) },
  { name: "webgpu", isDevice: true, automatic: 0, load: loadWebgpu },
  { name: "reference", lastResort: true, load: async () => referenceBackend },
];

async function loadWebgpu(): Promise<Backend> {
  try {
    return (await import("./webgpu.js")).webgpu;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Unavailable(
      "backend",
      "invalid-argument",
      `the code of the WebGPU backend could not be loaded: ${reason}; see that the files beside the bundle are served, or use backend: "wasm"`,
    );
  }
}
