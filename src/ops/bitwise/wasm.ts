/** Bitwise operators on WASM. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { elements } from "../wasm-elements.js";

const bitwise = (op: string, operation: "and" | "or" | "exclusiveOr" | "not"): WasmKernel =>
  elements(op, ({ inputs, outputs: [output] }) => ({
    operation,
    kind: "integer",
    inputs: inputs.map((input) => input!),
    output: output!,
  }));

/** The bits that both operands have. */
export const bitwiseAnd: WasmKernel = bitwise("BitwiseAnd", "and");

/** The bits that either operand has. */
export const bitwiseOr: WasmKernel = bitwise("BitwiseOr", "or");

/** The bits in which the operands differ. */
export const bitwiseXor: WasmKernel = bitwise("BitwiseXor", "exclusiveOr");

/** Every bit flipped. */
export const bitwiseNot: WasmKernel = bitwise("BitwiseNot", "not");
