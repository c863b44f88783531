/** Folds of any number of operands on WASM: floats in one chain, the extremes of other types two by two. */
import type { Operand } from "../../graph/kernel.js";
import { wasmFamily, type WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { kindOf, plainOnly, recordElements } from "../shared/wasm/elements.js";
import {
  apply,
  type Assignment,
  elementwise,
  type Expression,
  number,
  operand,
  type Operation,
} from "../shared/wasm/elementwise.js";
import { Max, Mean, Min, Sum } from "./op.js";

/** Operands of one expression, at most: it is walked from the last to the first. */
const mostOperands = 64;

/** What an output becomes: the operands folded, and `then` done to the result; or why not. */
function folded(
  output: Operand,
  operands: readonly Operand[],
  operation: Operation,
  then: (value: Expression) => Expression = (value) => value,
): Assignment | string {
  if (operands.length > mostOperands) return `there are more than ${mostOperands} operands`;
  const value = operands.map((each) => operand(each)).reduce((before, each) => apply(operation, before, each));
  return { output, value: then(value) };
}

/** The extreme of two operands of any type, or of one. */
const extreme = wasmFamily<{
  readonly operation: "minimum" | "maximum";
  readonly operands: readonly Operand[];
  readonly output: Operand;
}>({
  accepts({ operands, output }) {
    // The output may have taken over an operand's memory: only the first two are read before it is written.
    if (operands.length > 2) return "there are more than two operands";
    return plainOnly([...operands, output]);
  },
  record({ operation, operands, output }, recorder) {
    recordElements(recorder, {
      operation: operands.length === 1 ? "copy" : operation,
      kind: kindOf(output.type),
      inputs: operands,
      output,
    });
  },
});

/** The largest of the operands. */
export const maximum: readonly WasmKernel[] = [
  elementwise([Max], ({ inputs: { data_0 }, outputs: { max } }) => folded(max, data_0, "maximum")),
  extreme([Max], ({ inputs: { data_0 }, outputs: { max } }) => ({
    operation: "maximum",
    operands: data_0,
    output: max,
  })),
];

/** The smallest of the operands. */
export const minimum: readonly WasmKernel[] = [
  elementwise([Min], ({ inputs: { data_0 }, outputs: { min } }) => folded(min, data_0, "minimum")),
  extreme([Min], ({ inputs: { data_0 }, outputs: { min } }) => ({
    operation: "minimum",
    operands: data_0,
    output: min,
  })),
];

/** The sum of the operands. */
export const sum: WasmKernel = elementwise([Sum], ({ inputs, outputs }) => folded(outputs.sum, inputs.data_0, "add"));

/** The mean of the operands. */
export const mean: WasmKernel = elementwise([Mean], ({ inputs: { data_0 }, outputs }) =>
  folded(outputs.mean, data_0, "add", (sum) => apply("divide", sum, number(data_0.length))),
);
