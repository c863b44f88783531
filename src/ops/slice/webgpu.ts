/** Slice on WebGPU, where the bounds are known beforehand. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { copied, movingKernel } from "../shared/webgpu/move.js";
import { Slice1, Slice10 } from "./op.js";
import { knownRanges } from "./range.js";

/** Every `steps`-th element between `starts` and `ends`. */
export const slice: WebgpuKernel = movingKernel([Slice1, Slice10], (call) => {
  const ranges = knownRanges(call);
  if (typeof ranges === "string") return ranges;
  const { data } = call.inputs;
  const { output } = call.outputs;
  const strides = [...data.strides];
  let { offset } = data.place;
  for (const { axis, start, step } of ranges) {
    offset += start * data.strides[axis];
    strides[axis] *= step;
  }
  return [copied("slice", data, { shape: output.shape, strides: [strides], offset }, output)];
});
