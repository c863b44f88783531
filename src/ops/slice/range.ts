/** The arithmetic of Slice: which elements a start, an end and a step take along one axis. */
import {
  ceilDivideDims,
  type Dim,
  isKnown,
  maxDim,
  minDim,
  multiplyDims,
  subtractDims,
  addDims,
  unknownDim,
} from "../../graph/dim.js";
import { View } from "../../tensor/view.js";
import { isAtMost, isNonNegative } from "../shared/rules/contents.js";

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
