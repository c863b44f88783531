/** What all reductions share: which axes they take, the shape that is left, and the walk over the rows. */
import { type Dim, isKnown, type Shape, unknownDim } from "../../graph/dim.js";
import { type Fact, knownIntegers } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { isWide, type Numbers, readBigInts, readNumbers, writeBigInts, writeNumbers } from "../../tensor/access.js";
import { traitsOf } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";
import { fitsType, smallIntegers } from "../shared/rules/integer-facts.js";
import { axesLast, rowsAlong } from "../shared/loops/rows.js";
import { float64Scratch, int32Scratch, int64Scratch } from "../shared/loops/scratch.js";
import { normalizeAxes } from "../shared/rules/shapes.js";
import type { Fold } from "./fold.js";

/** What decides the axes: a list (empty or absent for the default), and what the default is. */
interface AxesChoice {
  readonly axes: readonly number[] | undefined;
  /** Without axes nothing is reduced, instead of everything. */
  readonly noop: boolean;
}

/** The axes that are reduced, counted from the front. */
export function reducedAxes(call: CallContext, rank: number, { axes = [], noop }: AxesChoice): number[] {
  if (axes.length === 0) return noop ? [] : Array.from({ length: rank }, (_, axis) => axis);
  call.check(axes.length <= rank, () => `axes must differ, got ${axes.length} for rank ${rank}`, "invalid-argument");
  return normalizeAxes(call, axes, rank);
}

/** The shape that is left. */
export function reducedShape(call: CallContext, shape: Shape, choice: AxesChoice, keepdims: boolean): Shape {
  const axes = reducedAxes(call, shape.length, choice);
  if (keepdims) return shape.map((dim, axis) => (axes.includes(axis) ? 1 : dim));
  return shape.filter((_, axis) => !axes.includes(axis));
}

/** The axes of an input: a list, empty where it is left out or has no elements, or undefined where they are not known yet. */
export function axesOfInput(axes: Fact | undefined): readonly number[] | undefined {
  return axes === undefined || axes.shape?.[0] === 0 ? [] : knownIntegers(axes);
}

/** What is known of the shape that is left before the axes are. */
export function shapeBeforeAxes(call: CallContext, shape: Shape, axes: Fact, keepdims: boolean): Shape | undefined {
  if (keepdims) return shape.map((dim) => (dim === 1 ? 1 : unknownDim()));
  const count = axes.shape?.[0];
  if (count === undefined || !isKnown(count)) return undefined;
  call.check(
    count <= shape.length,
    () => `axes must differ, got ${count} for rank ${shape.length}`,
    "invalid-argument",
  );
  return Array.from({ length: shape.length - count }, unknownDim);
}

/** The one integer that reducing all of a small tensor gives, as far as symbols tell. A result that would wrap is left to the run. */
export function reducedIntegers(data: Fact, choice: AxesChoice, fold: Fold): readonly Dim[] | undefined {
  const rank = data.shape?.length;
  const all = rank === (choice.axes?.length || (choice.noop ? 0 : rank));
  const values = fold.dims === undefined || !all ? undefined : smallIntegers(data);
  const result = values && fold.dims!(values);
  return result === undefined || !fitsType(data.type, result) ? undefined : [result];
}

/** Reduces `data` along the axes into `reduced`. */
export function reduceView(data: View, reduced: View, axes: readonly number[], fold: Fold): void {
  const { rows, length } = rowsAlong(data.shape, axes);
  const source = axesLast(data, axes);
  if (traitsOf(data.type).kind === "float") {
    const values = readNumbers(source);
    const results = float64Scratch(rows);
    for (let row = 0; row < rows; row++) results[row] = fold.number(values, row * length, (row + 1) * length);
    writeNumbers(reduced, results);
    return;
  }
  const values = isWide(data.type) ? readBigInts(source) : widened(readNumbers(source));
  const results = int64Scratch(rows);
  for (let row = 0; row < rows; row++) results[row] = fold.integer(values, row * length, (row + 1) * length, data.type);
  if (isWide(data.type)) writeBigInts(reduced, results);
  else writeNumbers(reduced, narrowed(results));
}

function widened(values: Numbers): BigInt64Array {
  const wide = int64Scratch(values.length);
  for (let i = 0; i < values.length; i++) wide[i] = BigInt(values[i]);
  return wide;
}

function narrowed(values: BigInt64Array): Int32Array {
  const narrow = int32Scratch(values.length);
  for (let i = 0; i < values.length; i++) narrow[i] = Number(BigInt.asIntN(32, values[i]));
  return narrow;
}
