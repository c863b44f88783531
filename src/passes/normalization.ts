/** What both normalisations are made of: patterns for means and roots, and the checks on their axes, weights and types. No rewrite itself. */
import { isKnownShape, sameDim } from "../graph/dim.js";
import type { Node, Value } from "../graph/graph.js";
import { axisOf, integersOf, shapeOf, typeOf } from "./facts.js";
import { bound, either, type Match, op, optional, type Pattern, product, scalar, sum } from "./match.js";
import { widens } from "./remove-no-ops.js";
import type { Edit } from "./rewrite.js";

/** The first of the axes that a ReduceMean takes the mean over, where they are the last ones and stay as 1. */
export function meanAxis(node: Node): number | undefined {
  const rank = shapeOf(node.inputs[0])?.length;
  if (rank === undefined || node.attrs["keepdims"] !== true) return undefined;
  const [, operand] = node.inputs;
  const listed = operand === undefined ? (node.attrs["axes"] as readonly number[] | undefined) : integersOf(operand);
  if (listed === undefined || listed.length === 0) return undefined;
  const axes = listed.map((axis) => axisOf(axis, rank)).sort((a, b) => a - b);
  return axes.every((axis, at) => axis === rank - axes.length + at) ? axes[0] : undefined;
}

/** The mean over the last axes. */
export const mean = (pattern: Pattern): Pattern =>
  op("ReduceMean", [pattern], { more: true, where: (node) => meanAxis(node) !== undefined });

/** The square, as a power or a product. */
export const square = (pattern: Pattern): Pattern =>
  either(op("Pow", [pattern, scalar(2)]), op("Mul", [pattern, pattern]));

/** `value / √(mean(squares) + epsilon)`, with the reduction named by `reduced`. */
export function overRoot(value: Pattern, squares: Pattern, reduced: Pattern, epsilon: Pattern): Pattern {
  const shifted = sum(
    bound(reduced, mean(squares)),
    scalar((number) => number >= 0 && number < 1, epsilon),
  );
  const root = op("Sqrt", [shifted]);
  const inverse = either(op("Reciprocal", [root]), op("Div", [scalar(1), root]), op("Pow", [shifted, scalar(-0.5)]));
  return either(product(inverse, value), op("Div", [value, root]));
}

/** A result times a weight, between which there may be a Cast to the weight's own type. */
export const weighted = (result: Pattern, weight: Pattern): Pattern => product(optional("Cast", result), weight);

/** What a normalisation works on. */
interface Normalized {
  /** The operand before a Cast to the wider type that statistics are made in. */
  readonly source: Value;
  readonly axis: number;
}

/** The operand and axis of a match; undefined where rounding between the steps would be lost, or weights do not span the normalised axes. */
export function normalizedOf(
  match: Match,
  x: Pattern,
  reduced: Pattern,
  weights: readonly Value[],
): Normalized | undefined {
  const value = match.value(x);
  const shape = shapeOf(value);
  const axis = meanAxis(match.node(reduced));
  const type = typeOf(value);
  // Narrower types round, and overflow, at each step: that is another result.
  if (shape === undefined || axis === undefined || (type !== "float32" && type !== "float64")) return undefined;
  const rows = shape.slice(axis);
  const spans = weights.every((weight) => {
    const own = shapeOf(weight);
    return own?.length === rows.length && own.every((dim, at) => sameDim(dim, rows[at]));
  });
  return spans ? { source: beforeCast(match, value), axis } : undefined;
}

/** What a Cast that loses nothing was made of; else the value itself. */
function beforeCast(match: Match, value: Value): Value {
  const producer = match.index.producerOf(value);
  const narrow = producer?.op.name === "Cast" && producer.op.domain === "" ? producer.inputs[0] : undefined;
  return narrow !== undefined && widens(typeOf(narrow), typeOf(value)) ? narrow : value;
}

/** A weight of ones for a value's axes from `axis` on; undefined where their sizes are not known. */
export function onesFor(value: Value, axis: number, edit: Edit): Value | undefined {
  const shape = shapeOf(value)?.slice(axis);
  const type = typeOf(value);
  if (!isKnownShape(shape) || type === undefined) return undefined;
  return edit.filled(type, shape, 1);
}
