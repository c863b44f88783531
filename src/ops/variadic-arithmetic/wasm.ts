/** Folds of any number of operands on WASM, on floats. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { apply, elementwise, type Expression, number, operand, type Operation } from "../wasm-elementwise.js";

const folded =
  (operation: Operation) =>
  ({ inputs }: KernelCall): Expression =>
    inputs.map((input) => operand(input!)).reduce((before, input) => apply(operation, before, input));

/** The largest of the operands. */
export const maximum: WasmKernel = elementwise("Max", folded("maximum"));

/** The smallest of the operands. */
export const minimum: WasmKernel = elementwise("Min", folded("minimum"));

/** The sum of the operands. */
export const sum: WasmKernel = elementwise("Sum", folded("add"));

/** The mean of the operands. */
export const mean: WasmKernel = elementwise("Mean", (call) =>
  apply("divide", folded("add")(call), number(call.inputs.length)),
);
