/** Folds of any number of operands on WASM: floats in one chain, the extremes of other types two by two. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { kindOf, plainOnly, recordElements } from "../wasm-elements.js";
import { apply, elementwise, type Expression, number, operand, type Operation } from "../wasm-elementwise.js";

const folded =
  (operation: Operation) =>
  ({ inputs }: KernelCall): Expression =>
    inputs.map((input) => operand(input!)).reduce((before, input) => apply(operation, before, input));

const extreme = (op: string, operation: "minimum" | "maximum"): WasmKernel => ({
  op,
  accepts({ inputs, outputs: [output] }) {
    // The output may have taken over an operand's memory: only the first two are read before it is written.
    if (inputs.length > 2) return "there are more than two operands";
    return plainOnly([...inputs, output]);
  },
  record({ inputs, outputs: [output] }, recorder) {
    const operands = inputs.map((input) => input!);
    const kind = kindOf(output!.type);
    recordElements(recorder, {
      operation: operands.length === 1 ? "copy" : operation,
      kind,
      inputs: operands,
      output: output!,
    });
  },
});

/** The largest of the operands. */
export const maximum: WasmKernel = elementwise("Max", folded("maximum"));

/** The larger of two operands of any type. */
export const maximumExactly: WasmKernel = extreme("Max", "maximum");

/** The smallest of the operands. */
export const minimum: WasmKernel = elementwise("Min", folded("minimum"));

/** The smaller of two operands of any type. */
export const minimumExactly: WasmKernel = extreme("Min", "minimum");

/** The sum of the operands. */
export const sum: WasmKernel = elementwise("Sum", folded("add"));

/** The mean of the operands. */
export const mean: WasmKernel = elementwise("Mean", (call) =>
  apply("divide", folded("add")(call), number(call.inputs.length)),
);
