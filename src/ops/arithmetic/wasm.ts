/** The four operations on WASM, on floats. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { apply, elementwise, operand, type Operation } from "../wasm-elementwise.js";

const binary = (op: string, operation: Operation): WasmKernel =>
  elementwise(op, ({ inputs: [a, b] }) => apply(operation, operand(a!), operand(b!)));

/** A + B. */
export const add: WasmKernel = binary("Add", "add");

/** A − B. */
export const subtract: WasmKernel = binary("Sub", "subtract");

/** A · B. */
export const multiply: WasmKernel = binary("Mul", "multiply");

/** A / B. */
export const divide: WasmKernel = binary("Div", "divide");
