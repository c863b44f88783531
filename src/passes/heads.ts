/**
 * Patterns that move heads: taken apart from rows, joined to rows again, brought to the front. A Reshape joins or parts only if its shapes say so for every
 * value of their symbols: one that comes to the same number of elements in another way does neither.
 */
import { multiplyDims, type Shape } from "../graph/dim.js";
import { orderOf, same, sameNumbers, shapeOf } from "./facts.js";
import { op, type Pattern, provided } from "./match.js";

/** True if `whole` is `parts` with its dimensions `axis` and `axis + 1` joined. */
export const joins = (parts: Shape | undefined, whole: Shape | undefined, axis: number): boolean =>
  parts !== undefined &&
  whole?.length === parts.length - 1 &&
  whole.every((dim, at) =>
    same(dim, at < axis ? parts[at] : at > axis ? parts[at + 1] : multiplyDims(parts[at], parts[at + 1])),
  );

/** A Reshape, whatever its shapes are. */
export const reshaped = (pattern: Pattern): Pattern => op("Reshape", [pattern], { more: true });

/** A Reshape between two shapes of which something holds. */
const reshapedAs = (
  pattern: Pattern,
  holds: (before: Shape | undefined, after: Shape | undefined) => boolean,
): Pattern =>
  provided(reshaped(pattern), (value, match) =>
    holds(shapeOf(match.index.producerOf(value)?.inputs[0]), shapeOf(value)),
  );

/** A Reshape that joins the dimensions `axis` and `axis + 1` of a value of `rank` dimensions. */
export const joined = (pattern: Pattern, rank: number, axis: number): Pattern =>
  reshapedAs(pattern, (before, after) => before?.length === rank && joins(before, after, axis));

/** A Reshape to `rank` dimensions of which it takes `axis` and `axis + 1` apart. */
export const parted = (pattern: Pattern, rank: number, axis: number): Pattern =>
  reshapedAs(pattern, (before, after) => after?.length === rank && joins(after, before, axis));

/** [batch, length, heads · size] as [batch, length, heads, size]. */
export const headsApart = (pattern: Pattern): Pattern => parted(pattern, 4, 2);

/** [batch, length, heads, size] as [batch, length, heads · size]. */
export const headsTogether = (pattern: Pattern): Pattern => joined(pattern, 4, 2);

/** The second and the third of four dimensions change places: heads come to the front, or go back. */
export const swapped = (pattern: Pattern): Pattern =>
  op("Transpose", [pattern], { where: (node) => sameNumbers(orderOf(node, 4), [0, 2, 1, 3]) });
