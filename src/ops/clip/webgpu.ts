/** Clip on WebGPU, its bounds attributes or operands. */
import type { Operand } from "../../graph/kernel.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { isFloat } from "../shared/webgpu/types.js";
import { Clip, Clip6 } from "./op.js";

/** Limits to operands; one that is left out does not limit. */
export const clip: WebgpuKernel = elementwiseKernel(
  [Clip],
  ({ inputs: { input: x, min, max }, outputs: { output } }) => {
    const [larger, smaller] = isFloat(x.type) ? ["larger", "smaller"] : ["max", "min"];
    const inputs: Record<string, Operand> = { x };
    let expression = "x";
    for (const [name, bound, limit] of [
      ["low", min, larger],
      ["high", max, smaller],
    ] as const)
      if (bound !== undefined) {
        inputs[name] = { ...bound, shape: [], strides: [] };
        expression = `${limit}(${expression}, ${name})`;
      }
    return { name: "clip", output, inputs, expression, calls: isFloat(x.type) ? ["larger", "smaller"] : [] };
  },
);

/** Limits to attributes. */
export const clipToAttributes: WebgpuKernel = elementwiseKernel(
  [Clip6],
  ({ inputs: { input: x }, outputs: { output }, attrs: { min, max } }) => ({
    name: "clip",
    output,
    inputs: { x },
    expression: "smaller(larger(x, p.low), p.high)",
    calls: ["larger", "smaller"],
    parameters: { low: { float: min }, high: { float: max } },
  }),
);
