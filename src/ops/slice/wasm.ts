/** Slice on WASM, where the bounds are known beforehand. */
import type { Operand } from "../../graph/kernel.js";
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { isWide, readBigInts, readNumbers } from "../../tensor/access.js";
import { fromFront } from "../shared/rules/layout.js";
import { type Move, whole } from "../shared/wasm/move.js";
import { mover } from "../shared/wasm/mover.js";
import { Slice1, Slice10 } from "./op.js";
import { rangeOf, sliceView } from "./range.js";

/** A list as numbers; what lies past 2^53 is clamped to a dimension anyway. */
const numbersOf = ({ view }: Operand): readonly number[] =>
  isWide(view.type) ? Array.from(readBigInts(view), Number) : Array.from(readNumbers(view));

interface Bounds {
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  readonly axes: readonly number[] | undefined;
  readonly steps?: readonly number[] | undefined;
}

function sliced(data: Operand, output: Operand, { starts, ends, axes, steps }: Bounds): readonly Move[] {
  const { shape } = data;
  const ranges = starts.map((start, at) => {
    const axis = fromFront(axes?.[at] ?? at, shape);
    return rangeOf(axis, shape[axis], start, ends[at], steps?.[at] ?? 1);
  });
  return [{ from: { operand: data, view: sliceView(data.view, ranges) }, to: whole(output) }];
}

/** The elements between `starts` and `ends`, which are attributes. */
export const sliceByAttributes: WasmKernel = mover(
  [Slice1],
  ({ inputs: { data }, outputs: { output }, attrs: { starts, ends, axes } }) =>
    sliced(data, output, { starts: starts.map(Number), ends: ends.map(Number), axes }),
);

/** Every `steps`-th element between `starts` and `ends`. */
export const slice: WasmKernel = mover(
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
