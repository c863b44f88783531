/** Tile on WebGPU. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { copied, movingKernel } from "../shared/webgpu/move.js";
import { Tile } from "./op.js";

/** A tensor repeated whole: each axis of the result is seen as (repeat, element). */
export const tile: WebgpuKernel = movingKernel([Tile], ({ inputs: { input }, outputs: { output } }) => {
  const shape = input.shape.flatMap((dim, axis) => [dim === 0 ? 0 : output.shape[axis] / dim, dim]);
  const strides = input.strides.flatMap((stride) => [0, stride]);
  return [copied("tile", input, { shape, strides: [strides], offset: input.place.offset }, output)];
});
