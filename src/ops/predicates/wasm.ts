/** Questions about floats on WASM. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { elements } from "../shared/wasm/elements.js";
import { IsNaN } from "./op.js";

/** True where the operand is not a number. */
export const isNaN: WasmKernel = elements([IsNaN], ({ inputs: { X }, outputs: { Y } }) => ({
  operation: "isNotANumber",
  kind: "double",
  inputs: [X],
  output: Y,
}));
