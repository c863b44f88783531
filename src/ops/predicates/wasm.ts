/** Questions about floats on WASM. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { elements } from "../wasm-elements.js";

/** True where the operand is not a number. */
export const isNaN: WasmKernel = elements("IsNaN", ({ inputs: [x], outputs: [y] }) => ({
  operation: "isNotANumber",
  kind: "double",
  inputs: [x!],
  output: y!,
}));
