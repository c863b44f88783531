/** Split on WebGPU, where every part is asked for: the outputs' shapes tell where each begins. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import { copied, movingKernel } from "../shared/webgpu/move.js";
import { Split13, Split18, Split2 } from "./op.js";

/** One tensor cut into several along `axis`. */
export const split: WebgpuKernel = movingKernel(
  [Split2, Split13, Split18],
  ({ inputs: { input }, outputs: { outputs }, attrs }) => {
    const axis = fromFront(attrs.axis, input.shape);
    let offset = input.place.offset;
    const parts = [];
    for (const output of outputs) {
      if (output === undefined) return "not every part is asked for";
      parts.push(copied("split", input, { shape: output.shape, strides: [input.strides], offset }, output));
      offset += output.shape[axis] * input.strides[axis];
    }
    return parts;
  },
);
