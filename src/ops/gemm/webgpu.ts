/** Gemm on WebGPU: transposed or not, with factors and an addend of any shape. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { product } from "../shared/webgpu/product.js";
import { Gemm } from "./op.js";

/** alpha · A' · B' + beta · C. */
export const gemm: WebgpuKernel = product([Gemm], ({ inputs: { A: a, B: b, C: c }, outputs: { Y: output }, attrs }) => {
  const { alpha, beta, transA, transB } = attrs;
  const [m, n] = output.shape;
  const [aRow, aK] = transA ? a.strides.toReversed() : a.strides;
  const [bK, bN] = transB ? b.strides.toReversed() : b.strides;
  const stepOf = (axis: number): number => (c === undefined || (c.shape.at(axis) ?? 1) === 1 ? 0 : c.strides.at(axis)!);
  // A factor of 0 leaves C out altogether: its NaNs and infinities do not show.
  const addend = c === undefined || beta === 0 ? undefined : { operand: c, row: stepOf(-2), column: stepOf(-1) };
  const sizes = { m, n, k: a.shape[transA ? 0 : 1], aRow, aK, bK, bN, batch: [] };
  return { a, b, output, ...sizes, finish: { alpha, beta, addend } };
});
