/** DepthToSpace and SpaceToDepth on WebGPU. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { copied, movingKernel } from "../shared/webgpu/move.js";
import { DepthToSpace1, DepthToSpace11, SpaceToDepth1, SpaceToDepth28 } from "./op.js";

/** Channels into blocks of pixels: [N, C, h·b, w·b] as [N, C, h, b, w, b] of the output. */
export const depthToSpace: WebgpuKernel = movingKernel(
  [DepthToSpace1, DepthToSpace11],
  ({ inputs: { input }, outputs: { output }, attrs }) => {
    const { blocksize: block } = attrs;
    const outermost = !("mode" in attrs) || attrs.mode !== "CRD";
    const [batch, channels, height, width] = output.shape;
    const [n, c, h, w] = input.strides;
    const [row, column, channel] = outermost
      ? [block * channels * c, channels * c, c]
      : [block * c, c, block * block * c];
    const shape = [batch, channels, height / block, block, width / block, block];
    const strides = [[n, channel, h, row, w, column]];
    return [copied("depthToSpace", input, { shape, strides, offset: input.place.offset }, output)];
  },
);

/** Blocks of pixels into channels. */
export const spaceToDepth: WebgpuKernel = movingKernel(
  [SpaceToDepth1, SpaceToDepth28],
  ({ inputs: { input }, outputs: { output }, attrs }) => {
    const { blocksize: block } = attrs;
    const outermost = !("mode" in attrs) || attrs.mode !== "CRD";
    const [batch, channels] = input.shape;
    const [height, width] = output.shape.slice(2);
    const [n, c, h, w] = input.strides;
    const [shape, strides] = outermost
      ? [
          [batch, block, block, channels, height, width],
          [n, h, w, c, block * h, block * w],
        ]
      : [
          [batch, channels, block, block, height, width],
          [n, c, h, w, block * h, block * w],
        ];
    return [copied("spaceToDepth", input, { shape, strides: [strides], offset: input.place.offset }, output)];
  },
);
