/** The fast paths on WASM that operators have, by declaration. The list itself is generated from the folders. */
import { type KernelTable, kernelTable } from "../graph/kernel.js";
import type { WasmKernel } from "../wasm-kernels/wasm-kernel.js";
import { kernels } from "./wasm.gen.js";

/** Fast paths by declaration, in the order they are tried. */
export const wasmKernels: KernelTable<WasmKernel> = kernelTable(kernels);
