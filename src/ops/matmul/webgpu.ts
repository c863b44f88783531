/** MatMul on WebGPU: float32, float16 and bfloat16, of any strides and batches. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { matmulSizes, plain, product } from "../shared/webgpu/product.js";
import { MatMul } from "./op.js";

/** A · B. */
export const matmul: WebgpuKernel = product([MatMul], ({ inputs: { A: a, B: b }, outputs: { Y: output } }) => ({
  a,
  b,
  output,
  ...matmulSizes(a, b),
  finish: plain,
}));
