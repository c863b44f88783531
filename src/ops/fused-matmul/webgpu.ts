/** FusedMatMul on WebGPU: MatMul's kernel over axes in the order that the attributes ask for. */
import type { Operand } from "../../graph/kernel.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { matmulSizes, plain, product } from "../shared/webgpu/product.js";
import { FusedMatMul } from "./op.js";
import { orderOf } from "./order.js";

/** alpha · A · B, each transposed or not. */
export const fusedMatmul: WebgpuKernel = product(
  [FusedMatMul],
  ({ inputs: { A: a, B: b }, outputs: { Y: output }, attrs }) => {
    const { alpha, transA, transB, transBatchA, transBatchB } = attrs;
    return {
      a,
      b,
      output,
      ...matmulSizes(ordered(a, transBatchA, transA), ordered(b, transBatchB, transB)),
      finish: { ...plain, alpha },
    };
  },
);

function ordered({ shape, strides }: Operand, batch: boolean, matrix: boolean): Pick<Operand, "shape" | "strides"> {
  const order = orderOf(shape.length, batch, matrix);
  return { shape: order.map((axis) => shape[axis]), strides: order.map((axis) => strides[axis]) };
}
