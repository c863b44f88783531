/** Constants of several products put together into those of one: its columns are theirs, one after the other or in turn. */
import { copyView } from "../tensor/copy.js";
import { absentView, joinAbsent } from "../tensor/deferred.js";
import { traitsOf } from "../tensor/element-type.js";
import { elementCount, View } from "../tensor/view.js";

/** How columns follow: all of one product before those of the next, or one of each in turn. */
export type ColumnOrder = "after" | "inTurn";

/** Parts joined along an axis. In turn, all have the same length. */
export function joinViews(parts: readonly View[], axis: number, order: ColumnOrder): View {
  const total = parts.reduce((sum, { shape }) => sum + shape[axis], 0);
  const shape = parts[0].shape.with(axis, total);
  // What is not on the host is joined when it is read.
  const absent = parts.some(absentView) ? joinAbsent(parts, runsOf(parts, axis, order), shape) : undefined;
  if (absent !== undefined) return absent;
  const joined = View.allocate(parts[0].type, shape);
  const { type, data, strides } = joined;
  if (order === "inTurn" && strides[axis] === 1 && parts.every(isPlain)) {
    parts.forEach((part, at) => spread(part, data as Uint8Array, at, parts.length));
    return joined;
  }
  let start = 0;
  parts.forEach((part, at) => {
    const target =
      order === "after"
        ? joined.slice(axis, start, start + part.shape[axis])
        : new View(type, part.shape, data, at * strides[axis], strides.with(axis, parts.length * strides[axis]));
    copyView(part, target);
    start += part.shape[axis];
  });
  return joined;
}

/** How many elements of each part follow each other. */
const runsOf = (parts: readonly View[], axis: number, order: ColumnOrder): readonly number[] =>
  parts.map(({ shape }) => elementCount(shape.slice(order === "after" ? axis : axis + 1)));

/** True for elements that are an array's own, without gaps. */
const isPlain = ({ type, data, contiguous }: View): boolean =>
  contiguous && !Array.isArray(data) && !(data instanceof BigInt64Array) && traitsOf(type).bits >= 8;

/** Writes each element of a part so many places behind the one before. */
function spread({ data, offset, size }: View, target: Uint8Array, first: number, step: number): void {
  // Arrays of numbers all behave alike; which one it is, the type says.
  const source = data as Uint8Array;
  for (let at = 0; at < size; at++) target[first + step * at] = source[offset + at];
}

/** The same for constants that hold something for each of so many columns, whatever their rank: scales, zero points, blocks, biases. */
export function joinByColumn(parts: readonly View[], columns: readonly number[], order: ColumnOrder): View {
  const rows = parts.map((part, at) => part.reshape([columns[at], part.size / columns[at]]));
  const joined = joinViews(rows, 0, order);
  const { shape } = parts[0];
  return joined.reshape(shape.length === 1 ? [joined.size] : [joined.shape[0], ...shape.slice(1)]);
}
