/** The four operations on WASM: floats in float32, all other types and awkward layouts exactly. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { elements, kindOf } from "../shared/wasm/elements.js";
import { apply, elementwise, operand } from "../shared/wasm/elementwise.js";
import { Add, Div, Mul, Sub } from "./op.js";

const arithmetic = (
  op: typeof Add,
  operation: "add" | "subtract" | "multiply" | "divide",
): readonly [floats: WasmKernel, exactly: WasmKernel] => [
  elementwise([op], ({ inputs: { A, B }, outputs: { C } }) => ({
    output: C,
    value: apply(operation, operand(A), operand(B)),
  })),
  elements([op], ({ inputs: { A, B }, outputs: { C } }) => ({
    operation,
    kind: kindOf(A.type),
    inputs: [A, B],
    output: C,
  })),
];

/** A + B. */
export const add: readonly WasmKernel[] = arithmetic(Add, "add");

/** A − B. */
export const subtract: readonly WasmKernel[] = arithmetic(Sub, "subtract");

/** A · B. */
export const multiply: readonly WasmKernel[] = arithmetic(Mul, "multiply");

/** A / B. */
export const divide: readonly WasmKernel[] = arithmetic(Div, "divide");
