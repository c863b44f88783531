/** Transpose on WebGPU. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { copied, movingKernel } from "../shared/webgpu/move.js";
import { Transpose } from "./op.js";

/** Axes in another order. */
export const transpose: WebgpuKernel = movingKernel(
  [Transpose],
  ({ inputs: { data }, outputs: { transposed }, attrs: { perm = [] } }) => {
    const order = perm.length > 0 ? perm : data.shape.map((_, axis) => data.shape.length - 1 - axis);
    const strides = order.map((axis) => data.strides[axis]);
    return [
      copied("transpose", data, { shape: transposed.shape, strides: [strides], offset: data.place.offset }, transposed),
    ];
  },
);
