/** What passes ask of values: shapes, constants, and whether dimensions are the same. Answers from facts alone; undefined where they do not tell. */
import { type Dim, isKnown, sameDim, sameShape, type Shape, SymbolicDim } from "../graph/dim.js";
import { knownIntegers } from "../graph/fact.js";
import type { Node, Value } from "../graph/graph.js";
import { readNumbers } from "../tensor/access.js";
import { type ElementType, traitsOf } from "../tensor/element-type.js";
import type { View } from "../tensor/view.js";

/** The value's shape, where its rank is known. */
export const shapeOf = (value: Value | undefined): Shape | undefined => value?.fact?.shape;

/** The value's element type. */
export const typeOf = (value: Value | undefined): ElementType | undefined => value?.fact?.type;

/** True for what the model itself holds and no feed replaces: an initializer that is an input too may be fed. */
export const isConstant = (value: Value | undefined): value is Value & { readonly initializer: View } =>
  value?.initializer !== undefined && value.fact?.constant !== undefined;

/** The number in a constant of one element, whatever its rank. */
export function numberOf(value: Value | undefined): number | undefined {
  const view = value?.fact?.constant;
  if (view === undefined || view.size !== 1 || !["float", "integer", "bool"].includes(traitsOf(view.type).kind))
    return undefined;
  return view.type === "int64" || view.type === "uint64" ? integersOf(value)?.[0] : readNumbers(view)[0];
}

/** The contents of a constant integer tensor. */
export const integersOf = (value: Value | undefined): readonly number[] | undefined => knownIntegers(value?.fact);

/** How far a constant of this type may lie from the number it stands for, relative: half a step of narrow types, a few steps of wide ones. */
const roundingOf = (type: ElementType | undefined): number =>
  type === "float16" ? 2 ** -11 : type === "bfloat16" ? 2 ** -8 : type === "float64" ? 2 ** -48 : 2 ** -20;

/** True if a constant of a type holds what `wanted` is in that type. Halves and whole numbers are none but themselves. */
export const standsFor = (number: number, wanted: number, type: ElementType | undefined): boolean =>
  number === wanted ||
  (!Number.isInteger(2 * wanted) && Math.abs(number - wanted) <= roundingOf(type) * Math.abs(wanted));

/** True if an attribute, which has 32 bits, holds a number as well as values of a type do. */
export const fitsAttribute = (number: number, type: ElementType | undefined): boolean =>
  type !== "float64" || Math.fround(number) === number;

/** True if both shapes are known and are the same for every value of their symbols. */
export const haveSameShape = (a: Value | undefined, b: Value | undefined): boolean => {
  const [left, right] = [shapeOf(a), shapeOf(b)];
  return left !== undefined && right !== undefined && sameShape(left, right);
};

/** True if the two are known to be the same; undefined dimensions are not. */
export const same = (a: Dim | undefined, b: Dim | undefined): boolean =>
  a !== undefined && b !== undefined && sameDim(a, b);

/** True if a dimension broadcasts to `whole` without ever making it longer: it is 1, or the same, or what `whole` is the maximum of. */
export function fitsInto(dim: Dim, whole: Dim): boolean {
  if (dim === 1 || sameDim(dim, whole)) return true;
  if (!(whole instanceof SymbolicDim) || whole.terms.length !== 1) return false;
  const [{ coefficient, atoms }] = whole.terms;
  const operation = coefficient === 1 && atoms.length === 1 ? atoms[0].operation : undefined;
  return operation?.name === "max" && (fitsInto(dim, operation.left) || fitsInto(dim, operation.right));
}

/** The axis counted from the front. */
export const axisOf = (axis: number, rank: number): number => (axis < 0 ? axis + rank : axis);

/** The order of axes that a Transpose of `rank` dimensions makes. */
export function orderOf(node: Node, rank: number): readonly number[] {
  const perm = node.attrs["perm"] as readonly number[] | undefined;
  return perm === undefined || perm.length === 0 ? Array.from({ length: rank }, (_, axis) => rank - 1 - axis) : perm;
}

/** True if both lists hold the same numbers. */
export const sameNumbers = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((number, at) => number === b[at]);

/** The last dimension, where it is a number. */
export const lastDim = (value: Value | undefined): number | undefined => {
  const dim = shapeOf(value)?.at(-1);
  return dim !== undefined && isKnown(dim) ? dim : undefined;
};
