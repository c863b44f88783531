/** Bitwise operators on WASM. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { elements } from "../shared/wasm/elements.js";
import { BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor } from "./op.js";

const bitwise = (op: typeof BitwiseAnd, operation: "and" | "or" | "exclusiveOr"): WasmKernel =>
  elements([op], ({ inputs: { A, B }, outputs: { C } }) => ({ operation, kind: "integer", inputs: [A, B], output: C }));

/** The bits that both operands have. */
export const bitwiseAnd: WasmKernel = bitwise(BitwiseAnd, "and");

/** The bits that either operand has. */
export const bitwiseOr: WasmKernel = bitwise(BitwiseOr, "or");

/** The bits in which the operands differ. */
export const bitwiseXor: WasmKernel = bitwise(BitwiseXor, "exclusiveOr");

/** Every bit flipped. */
export const bitwiseNot: WasmKernel = elements([BitwiseNot], ({ inputs: { X }, outputs: { Y } }) => ({
  operation: "not",
  kind: "integer",
  inputs: [X],
  output: Y,
}));
