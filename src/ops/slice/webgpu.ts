/** Slice on WebGPU, where the bounds are known beforehand. */
import type { Operand } from "../../graph/kernel.js";
import { isWide, readBigInts, readNumbers } from "../../tensor/access.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import { copied, type Filling, movingKernel } from "../shared/webgpu/move.js";
import { Slice1, Slice10 } from "./op.js";
import { rangeOf } from "./range.js";

/** A list as numbers; what lies past 2^53 is clamped to a dimension anyway. */
const numbersOf = ({ view }: Operand): readonly number[] =>
  isWide(view.type) ? Array.from(readBigInts(view), Number) : Array.from(readNumbers(view));

interface Bounds {
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  readonly axes: readonly number[] | undefined;
  readonly steps?: readonly number[] | undefined;
}

function sliced(data: Operand, output: Operand, { starts, ends, axes, steps }: Bounds): readonly Filling[] {
  const strides = [...data.strides];
  let { offset } = data.place;
  starts.forEach((from, at) => {
    const axis = fromFront(axes?.[at] ?? at, data.shape);
    const { start, step } = rangeOf(axis, data.shape[axis], from, ends[at], steps?.[at] ?? 1);
    offset += start * data.strides[axis];
    strides[axis] *= step;
  });
  return [copied("slice", data, { shape: output.shape, strides: [strides], offset }, output)];
}

/** The elements between `starts` and `ends`, which are attributes. */
export const sliceByAttributes: WebgpuKernel = movingKernel(
  [Slice1],
  ({ inputs: { data }, outputs: { output }, attrs: { starts, ends, axes } }) =>
    sliced(data, output, { starts: starts.map(Number), ends: ends.map(Number), axes }),
);

/** Every `steps`-th element between `starts` and `ends`. */
export const slice: WebgpuKernel = movingKernel(
  [Slice10],
  ({ inputs: { data, starts, ends, axes, steps }, outputs: { output } }) => {
    if ([starts, ends, axes, steps].some((bound) => bound?.known === false)) return "the bounds are data";
    return sliced(data, output, {
      starts: numbersOf(starts),
      ends: numbersOf(ends),
      axes: axes && numbersOf(axes),
      steps: steps && numbersOf(steps),
    });
  },
);
