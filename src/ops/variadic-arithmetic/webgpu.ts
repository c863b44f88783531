/** Max, Min, Sum and Mean of several operands on WebGPU. */
import type { Operand } from "../../graph/kernel.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { type Elementwise, elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { isFloat } from "../shared/webgpu/types.js";
import { Max, Mean, Min, Sum } from "./op.js";

/** The operands put together one after another, then finished. */
function folded(
  name: string,
  operands: readonly Operand[],
  output: Operand,
  combine: (total: string, next: string) => string,
  { calls = [], finish = (total) => total }: { calls?: Elementwise["calls"]; finish?: (total: string) => string } = {},
): Elementwise {
  const names = operands.map((_, at) => `x${at}_`);
  return {
    name,
    output,
    inputs: Object.fromEntries(operands.map((operand, at) => [names[at], operand])),
    expression: finish(names.reduce(combine)),
    calls: isFloat(output.type) ? calls : [],
  };
}

/** A call of a function of floats, or of its counterpart for whole numbers. */
const extreme =
  (type: Operand["type"], ofFloats: string, ofIntegers: string) =>
  (total: string, next: string): string =>
    `${isFloat(type) ? ofFloats : ofIntegers}(${total}, ${next})`;

const plus = (total: string, next: string): string => `${total} + ${next}`;

/** The largest of the operands. */
export const maximum: WebgpuKernel = elementwiseKernel([Max], ({ inputs: { data_0: operands }, outputs: { max } }) =>
  folded("maximum", operands, max, extreme(max.type, "larger", "max"), { calls: ["larger"] }),
);

/** The smallest of the operands. */
export const minimum: WebgpuKernel = elementwiseKernel([Min], ({ inputs: { data_0: operands }, outputs: { min } }) =>
  folded("minimum", operands, min, extreme(min.type, "smaller", "min"), { calls: ["smaller"] }),
);

/** The sum of the operands. */
export const sum: WebgpuKernel = elementwiseKernel(
  [Sum],
  ({ inputs: { data_0: operands }, outputs: { sum: output } }) => folded("sum", operands, output, plus),
);

/** The mean of the operands. */
export const mean: WebgpuKernel = elementwiseKernel(
  [Mean],
  ({ inputs: { data_0: operands }, outputs: { mean: output } }) =>
    folded("mean", operands, output, plus, { finish: (total) => `(${total}) / ${operands.length}.0` }),
);
