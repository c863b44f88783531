/** MatMulBias on WebGPU: MatMul's kernel, which adds a row by itself. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { matmulSizes, plain, product } from "../shared/webgpu/product.js";
import { MatMulBias } from "./op.js";

/** A · B + bias. */
export const matmulBias: WebgpuKernel = product(
  [MatMulBias],
  ({ inputs: { A: a, B: b, bias }, outputs: { Y: output } }) => ({
    a,
    b,
    output,
    ...matmulSizes(a, b),
    finish: { ...plain, addend: { operand: bias, row: 0, column: bias.strides[0] } },
  }),
);
