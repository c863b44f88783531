/** Constants of several products put together into those of one: its columns are theirs, one after the other or in turn. */
import { copyView } from "../tensor/copy.js";
import { View } from "../tensor/view.js";

/** How columns follow: all of one product before those of the next, or one of each in turn. */
export type ColumnOrder = "after" | "inTurn";

/** Parts joined along an axis. In turn, all have the same length. */
export function joinViews(parts: readonly View[], axis: number, order: ColumnOrder): View {
  const total = parts.reduce((sum, { shape }) => sum + shape[axis], 0);
  const joined = View.allocate(parts[0].type, parts[0].shape.with(axis, total));
  const { type, data, strides } = joined;
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

/** The same for constants that hold something for each of so many columns, whatever their rank: scales, zero points, blocks, biases. */
export function joinByColumn(parts: readonly View[], columns: readonly number[], order: ColumnOrder): View {
  const rows = parts.map((part, at) => part.reshape([columns[at], part.size / columns[at]]));
  const joined = joinViews(rows, 0, order);
  const { shape } = parts[0];
  return joined.reshape(shape.length === 1 ? [joined.size] : [joined.shape[0], ...shape.slice(1)]);
}
