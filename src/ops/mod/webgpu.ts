/** Mod on WebGPU: of whole numbers. The quotient of floats may be too large for float32. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { isFloat } from "../shared/webgpu/types.js";
import { Mod, Mod10 } from "./op.js";

/** The rest of A / B; by 0 it is 0. */
export const modulo: WebgpuKernel = elementwiseKernel(
  [Mod10, Mod],
  ({ inputs: { A: a, B: b }, outputs: { C: output }, attrs: { fmod } }) => {
    if (isFloat(a.type)) return "the rest of floats is computed exactly";
    const unsigned = a.type.startsWith("u");
    const floored = unsigned || fmod ? "a % b" : "select(a % b, a % b + b, a % b != 0 && (a % b < 0) != (b < 0))";
    const zero = unsigned ? "0u" : "0";
    return { name: "modulo", output, inputs: { a, b }, expression: `select(${floored}, ${zero}, b == ${zero})` };
  },
);
