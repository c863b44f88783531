/** Compares a result with what a case expects: numpy's allclose rule for floats, equality for everything else. */
import { valueText } from "#insitu/base/value-text.js";
import { isWide, readBigInts, readNumbers, readStrings } from "#insitu/tensor/access.js";
import { contiguous } from "#insitu/tensor/copy.js";
import { traitsOf } from "#insitu/tensor/element-type.js";
import type { View } from "#insitu/tensor/view.js";

/** How far a float may be from the expected one: |actual − expected| ≤ atol + rtol · |expected|. */
export interface Tolerance {
  readonly rtol: number;
  readonly atol: number;
}

function elements(view: View): ArrayLike<number | bigint | string> {
  if (view.type === "string") return readStrings(view);
  if (isWide(view.type)) return readBigInts(view);
  if (traitsOf(view.type).kind === "complex") return contiguous(view).data;
  return readNumbers(view);
}

/** Undefined where a tolerance is one, else a sentence that says what is wrong with it: too wide a one lets every result pass. */
export function toleranceProblem({ rtol, atol }: Tolerance): string | undefined {
  if (!(typeof rtol === "number" && rtol >= 0 && rtol < 1))
    return `rtol must be a number from 0 to below 1, got ${valueText(rtol)}`;
  if (!(typeof atol === "number" && atol >= 0 && atol < Infinity))
    return `atol must be a finite number from 0 on, got ${valueText(atol)}`;
  return undefined;
}

/** Undefined where type and shape agree, else a sentence. */
export const formDifference = (actual: View, expected: View): string | undefined =>
  String(actual) === String(expected) ? undefined : `got ${actual}, expected ${expected}`;

/** Absolute tolerances up to this one tell results apart, whatever is expected. */
const smallTolerance = 0.1;

/** Undefined where the two agree, else a sentence that says where they differ most. */
export function difference(actual: View, expected: View, { rtol, atol }: Tolerance): string | undefined {
  const form = formDifference(actual, expected);
  if (form !== undefined) return form;
  const a = elements(actual);
  const b = elements(expected);
  const float = ["float", "complex"].includes(traitsOf(expected.type).kind);
  let [worst, largest] = [0, 0];
  let at = -1;
  let wrong = 0;
  for (let i = 0; i < b.length; i++) {
    const x = a[i];
    const y = b[i];
    if (typeof y === "number" && Number.isFinite(y)) largest = Math.max(largest, Math.abs(y));
    if (x === y || (x !== x && y !== y)) continue;
    if (float && typeof x === "number" && typeof y === "number") {
      const off = Math.abs(x - y);
      // Infinity is as close to itself as anything is, and to nothing else.
      if (Number.isFinite(off) && off <= atol + rtol * Math.abs(y)) continue;
      if (off > worst || at < 0) [worst, at] = [off, i];
    } else if (at < 0) at = i;
    wrong++;
  }
  if (at >= 0) return `${wrong} of ${b.length} elements differ, most at ${at}: got ${a[at]}, expected ${b[at]}`;
  if (float && atol > smallTolerance && atol > largest * smallTolerance)
    return `atol ${atol} tells nothing apart beside numbers of at most ${largest}`;
  return undefined;
}

/**
 * The largest difference between the numbers of two views, relative where those expected are above 1. What is no number, or infinite, in one
 * of them only is infinitely far off, and so are views of another type or shape.
 */
export function largestDifference(actual: View, expected: View): number {
  if (String(actual) !== String(expected)) return Infinity;
  const [a, b] = [elements(actual), elements(expected)];
  let largest = 0;
  for (let at = 0; at < b.length; at++) {
    const [x, y] = [a[at], b[at]];
    if (x === y || (x !== x && y !== y)) continue;
    const gap = typeof x === "string" ? NaN : Math.abs(Number(x) - Number(y)) / Math.max(1, Math.abs(Number(y)));
    if (Number.isNaN(gap)) return Infinity;
    largest = Math.max(largest, gap);
  }
  return largest;
}
