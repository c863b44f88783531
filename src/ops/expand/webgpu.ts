/** Expand on WebGPU. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { copied, movingKernel } from "../shared/webgpu/move.js";
import { Expand } from "./op.js";

/** A tensor repeated by broadcasting. */
export const expand: WebgpuKernel = movingKernel([Expand], ({ inputs: { input }, outputs: { output } }) => {
  const { shape } = output;
  const lead = shape.length - input.shape.length;
  const strides = shape.map((_, axis) => (input.shape[axis - lead] > 1 ? input.strides[axis - lead] : 0));
  return [copied("expand", input, { shape, strides: [strides], offset: input.place.offset }, output)];
});
