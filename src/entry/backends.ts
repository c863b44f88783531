/**
 * The backends of this build, the best first. Each is made when a session asks for it. Their code comes with the entry: what bundlers put
 * around a dynamic import asks for a document, and workers have none.
 */
import type { BackendChoice } from "../backends/backend.js";
import { referenceBackend } from "../backends/reference/reference.js";
import { wasmBackend } from "../backends/wasm/wasm.js";
import { webgpuBackend } from "../backends/webgpu/webgpu.js";
import { wasmKernels } from "../ops/wasm.js";
import { webgpuKernels } from "../ops/webgpu.js";

/** The backends by name. */
export type BackendName = "wasm" | "webgpu" | "reference";

/** All of them. */
export const backends: readonly (BackendChoice & { readonly name: BackendName })[] = [
  { name: "wasm", automatic: 1, load: async () => wasmBackend(wasmKernels) },
  { name: "webgpu", isDevice: true, automatic: 0, load: async () => webgpuBackend(webgpuKernels) },
  { name: "reference", lastResort: true, load: async () => referenceBackend },
];
