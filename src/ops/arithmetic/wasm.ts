/** The four operations on WASM: floats in float32, all other types and awkward layouts exactly. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { elements, kindOf } from "../wasm-elements.js";
import { apply, elementwise, operand } from "../wasm-elementwise.js";

type Operation = "add" | "subtract" | "multiply" | "divide";

const floats = (op: string, operation: Operation): WasmKernel =>
  elementwise(op, ({ inputs: [a, b] }) => apply(operation, operand(a!), operand(b!)));

const exactly = (op: string, operation: Operation): WasmKernel =>
  elements(op, ({ inputs: [a, b], outputs: [output] }) => ({
    operation,
    kind: kindOf(a!.type),
    inputs: [a!, b!],
    output: output!,
  }));

/** A + B. */
export const add: WasmKernel = floats("Add", "add");

/** A + B on integers and float64. */
export const addExactly: WasmKernel = exactly("Add", "add");

/** A − B. */
export const subtract: WasmKernel = floats("Sub", "subtract");

/** A − B on integers and float64. */
export const subtractExactly: WasmKernel = exactly("Sub", "subtract");

/** A · B. */
export const multiply: WasmKernel = floats("Mul", "multiply");

/** A · B on integers and float64. */
export const multiplyExactly: WasmKernel = exactly("Mul", "multiply");

/** A / B. */
export const divide: WasmKernel = floats("Div", "divide");

/** A / B on integers and float64. */
export const divideExactly: WasmKernel = exactly("Div", "divide");
