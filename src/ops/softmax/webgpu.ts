/** Softmax and LogSoftmax on WebGPU. In 16-bit floats every step of Softmax is rounded to the type, as the reference implementation does. */
import type { Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { roundingTo } from "../../webgpu-kernels/wgsl.js";
import { fromFront } from "../shared/rules/layout.js";
import { functionsPart } from "../shared/webgpu/functions.js";
import { acceptsRows, mapRows, type RowWork } from "../shared/webgpu/row-phases.js";
import { LogSoftmax1, LogSoftmax13, Softmax1, Softmax13 } from "./op.js";

const uses = [functionsPart("infinity", "larger", "exponential")];

const sum = (a: string, b: string): string => `${a} + ${b}`;

const greatest = {
  initial: "-infinity()",
  term: "x",
  combine: (a: string, b: string): string => `larger(${a}, ${b})`,
};

const axesFrom = (axis: number, { length: rank }: readonly number[]): readonly number[] =>
  Array.from({ length: rank - axis }, (_, at) => axis + at);

function softmaxOf(input: Operand, output: Operand, axes: readonly number[]): RowWork {
  if (input.type === "float32")
    return {
      name: "softmax",
      input,
      output,
      axes,
      phases: [greatest, { initial: "0.0", term: "exponential(x - m0)", combine: sum }],
      result: "exponential(x - m0) / m1",
      uses,
    };
  const weight = "rounded(exponential(rounded(x - m0)))";
  // bfloat16 is added in runs of eight, each sum rounded: see the reference implementation of attention.
  const run = { length: 8, combine: (a: string, b: string): string => `rounded(${a} + ${b})` };
  return {
    name: "softmax",
    input,
    output,
    axes,
    uses: [...uses, roundingTo("rounded", input.type)],
    phases: [greatest, { initial: "0.0", term: weight, combine: sum, ...(input.type === "bfloat16" ? { run } : {}) }],
    result: `${weight} / rounded(m1)`,
  };
}

const logSoftmaxOf = (input: Operand, output: Operand, axes: readonly number[]): RowWork => ({
  name: "logSoftmax",
  input,
  output,
  axes,
  phases: [greatest, { initial: "0.0", term: "exponential(x - m0)", combine: sum }],
  result: "x - m0 - logarithm(m1)",
  uses: [...uses, functionsPart("logarithm")],
});

function rowKernel(op: typeof Softmax13, coerced: boolean, workOf: typeof softmaxOf): WebgpuKernel {
  const describe = (input: Operand, output: Operand, axisGiven: number): RowWork => {
    const axis = fromFront(axisGiven, input.shape);
    return workOf(input, output, coerced ? axesFrom(axis, input.shape) : [axis]);
  };
  return webgpuKernel([op], {
    accepts: ({ inputs: { input }, outputs: { output }, attrs: { axis } }) =>
      output.place.size === 0 ? true : acceptsRows(describe(input, output, axis)),
    record({ inputs: { input }, outputs: { output }, attrs: { axis } }, recorder) {
      if (output.place.size > 0) mapRows(describe(input, output, axis), recorder);
    },
  });
}

/** Softmax over everything from `axis` on. */
export const softmaxJoined: WebgpuKernel = rowKernel(Softmax1, true, softmaxOf);
/** Softmax along `axis`. */
export const softmax: WebgpuKernel = rowKernel(Softmax13, false, softmaxOf);
/** The logarithm of softmax over everything from `axis` on. */
export const logSoftmaxJoined: WebgpuKernel = rowKernel(LogSoftmax1, true, logSoftmaxOf);
/** The logarithm of softmax along `axis`. */
export const logSoftmax: WebgpuKernel = rowKernel(LogSoftmax13, false, logSoftmaxOf);
