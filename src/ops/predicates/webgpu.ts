/** Questions about floats on WebGPU, answered by their bits. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { IsInf, IsNaN } from "./op.js";

/** True where the operand is infinite, of the signs asked for. */
export const isInfinite: WebgpuKernel = elementwiseKernel(
  [IsInf],
  ({ inputs: { X: x }, outputs: { Y: output }, attrs: { detect_negative: negative, detect_positive: positive } }) => ({
    name: "isInfinite",
    output,
    inputs: { x },
    expression: "select(0u, 1u, isInfinite(x) && select(p.positive, p.negative, x < 0.0) == 1u)",
    calls: ["isInfinite"],
    parameters: { positive: positive ? 1 : 0, negative: negative ? 1 : 0 },
  }),
);

/** True where the operand is not a number. */
export const isNotANumber: WebgpuKernel = elementwiseKernel(
  [IsNaN],
  ({ inputs: { X: x }, outputs: { Y: output } }) => ({
    name: "isNotANumber",
    output,
    inputs: { x },
    expression: "select(0u, 1u, isNan(x))",
    calls: ["isNan"],
  }),
);
