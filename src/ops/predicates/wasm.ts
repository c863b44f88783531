/** Questions about floats on WASM. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { elements } from "../wasm-elements.js";
import { IsNaN } from "./op.js";

/** True where the operand is not a number. */
export const isNaN: WasmKernel = elements([IsNaN], ({ inputs: { X }, outputs: { Y } }) => ({
  operation: "isNotANumber",
  kind: "double",
  inputs: [X],
  output: Y,
}));
