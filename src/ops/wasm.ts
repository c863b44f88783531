/** The fast paths on WASM that operators have, by `domain::name`. The list itself is generated from the folders. */
import type { WasmKernel } from "../kernels/wasm-kernel.js";
import { kernels } from "./wasm.gen.js";

/** Fast paths by operator, in the order they are tried. */
export const wasmKernels: ReadonlyMap<string, readonly WasmKernel[]> = group(kernels);

function group(all: readonly WasmKernel[]): Map<string, WasmKernel[]> {
  const table = new Map<string, WasmKernel[]>();
  for (const kernel of all) {
    const key = `${kernel.domain ?? ""}::${kernel.op}`;
    table.set(key, [...(table.get(key) ?? []), kernel]);
  }
  return table;
}
