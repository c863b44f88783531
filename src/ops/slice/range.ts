/** The arithmetic of Slice: which elements a start, an end and a step take along one axis. */
import {
  ceilDivideDims,
  type Dim,
  isKnown,
  maxDim,
  minDim,
  subtractDims,
  addDims,
  unknownDim,
} from "../../graph/dim.js";
import type { CallOf, Operand } from "../../graph/kernel.js";
import { isWide, readBigInts, readNumbers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { isAtMost, isNonNegative } from "../shared/rules/contents.js";
import { fromFront } from "../shared/rules/layout.js";
import type { Slice1, Slice10 } from "./op.js";

/** Elements `start`, `start + step`, … of an axis, `count` of them. */
export interface Range {
  readonly axis: number;
  readonly start: number;
  readonly step: number;
  readonly count: number;
}

const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high);

/** The range along an axis of `size` elements: negative ends count from the back, both are clamped to what is there. */
export function rangeOf(axis: number, size: number, start: number, end: number, step: number): Range {
  const fromFront = (value: number): number => (value < 0 ? value + size : value);
  const backward = step < 0;
  const first = backward ? Math.min(Math.max(fromFront(start), 0), size - 1) : clamp(fromFront(start), 0, size);
  const last = backward ? clamp(fromFront(end), -1, size - 1) : clamp(fromFront(end), 0, size);
  const count = Math.max(0, Math.ceil((last - first) / step));
  return count === 0 ? { axis, start: 0, step: 1, count } : { axis, start: first, step: count === 1 ? 1 : step, count };
}

/** Ends at least this far are taken for "to the end" of a dimension whose size is a symbol. */
const farAway = 2 ** 31 - 1;

/** `value` counted from the front and clamped to [0, size]; undefined where its sign cannot be told. */
function clampToSize(value: Dim, size: Dim): Dim | undefined {
  if (isKnown(value)) {
    if (value >= farAway) return size;
    if (value <= -farAway) return 0;
    if (value < 0) return maxDim(addDims(size, value), 0);
  } else if (!isNonNegative(value)) {
    if (!isAtMost(value, -1)) return undefined;
    const fromEnd = addDims(size, value);
    return isNonNegative(fromEnd) ? fromEnd : maxDim(fromEnd, 0);
  }
  if (isAtMost(value, size)) return value;
  return isAtMost(size, value) ? size : minDim(value, size);
}

/** How many elements a slice takes along an axis of `size`, where any of the numbers may be a symbol. */
export function lengthAlong(size: Dim, start: Dim, end: Dim, step: Dim): Dim {
  if (isKnown(size) && isKnown(start) && isKnown(end) && isKnown(step)) return rangeOf(0, size, start, end, step).count;
  if (!isKnown(step)) return unknownDim();
  if (step < 0) {
    const whole = isKnown(start) && (start === -1 || start >= farAway) && isKnown(end) && end <= -farAway;
    return whole ? ceilDivideDims(size, -step) : unknownDim();
  }
  const last = clampToSize(end, size);
  const first = clampToSize(start, size);
  if (first === undefined || last === undefined) return unknownDim();
  // The last `-start` elements, or as many as there are.
  if (isKnown(start) && start < 0 && last === size)
    return ceilDivideDims(isAtMost(-start, size) ? -start : minDim(-start, size), step);
  const length = subtractDims(last, first);
  return ceilDivideDims(isNonNegative(length) ? length : maxDim(length, 0), step);
}

/** The elements that the ranges take, without copying. */
export function sliceView(view: View, ranges: readonly Range[]): View {
  const shape = [...view.shape];
  const strides = [...view.strides];
  let offset = view.offset;
  for (const { axis, start, step, count } of ranges) {
    offset += start * strides[axis];
    shape[axis] = count;
    strides[axis] *= step;
  }
  return new View(view.type, shape, view.data, offset, strides);
}

/** A list as numbers; what lies past 2^53 is clamped to a dimension anyway. */
export const clampedNumbers = (view: View): readonly number[] =>
  isWide(view.type) ? Array.from(readBigInts(view), Number) : Array.from(readNumbers(view));

/** The ranges that a call takes for a kernel, one for each axis that it names; why not where its bounds are data. */
export function knownRanges({
  inputs,
  attrs,
}: CallOf<typeof Slice1> | CallOf<typeof Slice10>): readonly Range[] | string {
  const { shape } = inputs.data;
  const rangesOf = (
    bounds: Readonly<Record<"starts" | "ends", readonly number[]>>,
    axes?: readonly number[],
    steps?: readonly number[],
  ): Range[] =>
    bounds.starts.map((start, at) => {
      const axis = fromFront(axes?.[at] ?? at, shape);
      return rangeOf(axis, shape[axis], start, bounds.ends[at], steps?.[at] ?? 1);
    });
  if ("starts" in attrs)
    return rangesOf({ starts: attrs.starts.map(Number), ends: attrs.ends.map(Number) }, attrs.axes);
  if (!("starts" in inputs)) return [];
  const { starts, ends, axes, steps } = inputs;
  if ([starts, ends, axes, steps].some((bound) => bound?.known === false)) return "the bounds are data";
  const listed = ({ view }: Operand): readonly number[] => clampedNumbers(view);
  return rangesOf({ starts: listed(starts), ends: listed(ends) }, axes && listed(axes), steps && listed(steps));
}
