/** The reference implementation of Resize and Upsample, in float64, axis by axis; the nearest element is copied as it is. */
import type { CallContext } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { copyView } from "../../tensor/copy.js";
import { traitsOf } from "../../tensor/element-type.js";
import { View } from "../../tensor/view.js";
import { product } from "../shared/loops/rows.js";
import { axesInNumbers, factOf } from "./axes.js";
import { askedOf, filterOf, type Operands, type ResizeChoice } from "./choice.js";
import { type Axis, type Filter, isUnchanged, tapsOf } from "./taps.js";

/** Resamples along one axis, in float64. */
function resample(from: Float64Array, shape: readonly number[], at: number, axis: Axis, filter: Filter): Float64Array {
  const { count, indices, weights } = tapsOf(axis, filter);
  const [outer, inner] = [product(shape.slice(0, at)), product(shape.slice(at + 1))];
  const result = new Float64Array(outer * axis.to * inner);
  for (let line = 0; line < outer; line++)
    for (let row = 0; row < axis.to; row++) {
      const to = (line * axis.to + row) * inner;
      for (let tap = 0; tap < count; tap++) {
        const weight = weights[row * count + tap];
        if (weight === 0) continue;
        const source = (line * axis.from + indices[row * count + tap]) * inner;
        for (let i = 0; i < inner; i++) result[to + i] += weight * from[source + i];
      }
    }
  return result;
}

/** Copies the nearest element of each place, whatever it is. */
function pickNearest(X: View, Y: View, axes: readonly Axis[], filter: Filter): void {
  let from = X;
  axes.forEach((axis, at) => {
    if (isUnchanged(axis, filter)) return;
    const { indices } = tapsOf(axis, filter);
    const next = View.allocate(from.type, from.shape.with(at, axis.to));
    for (let row = 0; row < axis.to; row++)
      copyView(from.slice(at, indices[row], indices[row] + 1), next.slice(at, row, row + 1));
    from = next;
  });
  copyView(from, Y);
}

/** The whole part of numbers, held within what an integer type holds: as casts of results go. */
function wholeWithin(
  values: Float64Array,
  { bits, signed }: { readonly bits: number; readonly signed: boolean },
): void {
  const [least, most] = signed ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1];
  for (let at = 0; at < values.length; at++) values[at] = Math.min(Math.max(Math.trunc(values[at]), least), most);
}

/** Writes the extrapolation value wherever a place lies outside along some axis. */
function fillOutside(
  values: Float64Array,
  shape: readonly number[],
  axes: readonly Axis[],
  filter: Filter,
  fill: number,
): void {
  axes.forEach((axis, at) => {
    const { outside } = tapsOf(axis, filter);
    if (outside === undefined) return;
    const [outer, inner] = [product(shape.slice(0, at)), product(shape.slice(at + 1))];
    for (let line = 0; line < outer; line++)
      for (let row = 0; row < axis.to; row++)
        if (outside[row] === 1) values.fill(fill, (line * axis.to + row) * inner, (line * axis.to + row + 1) * inner);
  });
}

/** Resizes X into Y. */
export function resize(
  call: CallContext,
  choice: ResizeChoice,
  operands: Operands<View>,
  Y: View,
  given?: readonly number[],
): void {
  if (Y.size === 0) return;
  const { X, roi, scales, sizes } = operands;
  const facts = { X: factOf(X)!, roi: factOf(roi), scales: factOf(scales), sizes: factOf(sizes) };
  const axes = axesInNumbers(call, askedOf(choice, facts, given), X.shape, Y.shape);
  const filter = filterOf(choice);
  const crops = filter.coordinates === "tf_crop_and_resize";
  const { kind } = traitsOf(X.type);
  const isNumber = kind === "float" || kind === "integer";
  if (filter.mode === "nearest" && !(crops && isNumber)) return pickNearest(X, Y, axes, filter);
  let values: Float64Array = Float64Array.from(readNumbers(X));
  let { shape } = X;
  axes.forEach((axis, at) => {
    if (isUnchanged(axis, filter)) return;
    values = resample(values, shape, at, axis, filter);
    shape = shape.with(at, axis.to);
  });
  if (crops) fillOutside(values, shape, axes, filter, choice.extrapolation_value);
  if (kind === "integer") wholeWithin(values, traitsOf(X.type));
  writeNumbers(Y, values);
}
