// How results are compared in the tests. Nothing that is no number, infinite, longer or of another type is ever close to something else;
// where nothing may be off, not even the sign of zero is.
import { isWide, readBigInts, readNumbers, readStrings } from "../../src/tensor/access.js";
import { type ByteStorage, traitsOf } from "../../src/tensor/element-type.js";
import type { View } from "../../src/tensor/view.js";
import { cloneView, contiguous } from "../../src/tensor/copy.js";

/** How far a number is from the one expected: 0 for itself, NaN for NaN; infinitely far where only one of them is finite. */
export function apart(actual: number, expected: number): number {
  if (actual === expected || (Number.isNaN(actual) && Number.isNaN(expected))) return 0;
  const gap = Math.abs(actual - expected);
  return Number.isNaN(gap) ? Infinity : gap;
}

/** The largest distance between two lists; infinite where one is longer. */
export function distance(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let most = actual.length === expected.length ? 0 : Infinity;
  for (let at = 0; at < expected.length; at++) most = Math.max(most, apart(actual[at], expected[at]));
  return most;
}

/** The largest distance between two lists, relative to what is expected where that is above 1. */
export function largestDifference(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let most = actual.length === expected.length ? 0 : Infinity;
  for (let at = 0; at < expected.length; at++) {
    const gap = apart(actual[at], expected[at]);
    if (gap > 0) most = Math.max(most, gap === Infinity ? gap : gap / Math.max(1, Math.abs(expected[at])));
  }
  return most;
}

function elements(view: View): ArrayLike<number | bigint | string> {
  if (view.type === "string") return readStrings(view);
  if (isWide(view.type)) return readBigInts(view);
  if (traitsOf(view.type).kind === "complex") return contiguous(view).data;
  return readNumbers(view);
}

/**
 * An empty string when two views agree, else a sentence that says where they first differ. Without a tolerance every number must be the very
 * same; NaN is NaN, whatever its bits.
 */
export function compareViews(actual: View, expected: View, { tolerance = 0 }: { tolerance?: number } = {}): string {
  if (String(actual) !== String(expected)) return `got ${actual}, expected ${expected}`;
  const a = elements(actual);
  const b = elements(expected);
  for (let i = 0; i < b.length; i++) {
    const [x, y] = [a[i], b[i]];
    if (Object.is(x, y)) continue;
    const close =
      typeof x === "number" && typeof y === "number" && tolerance > 0 && largestDifference([x], [y]) <= tolerance;
    if (!close) return `element ${i}: got ${shown(x)}, expected ${shown(y)}`;
  }
  return "";
}

const shown = (value: unknown): string => (Object.is(value, -0) ? "-0" : String(value));

/** An empty string when two views hold the same bits, those of NaN included. */
export function compareBits(actual: View, expected: View): string {
  if (String(actual) !== String(expected)) return `got ${actual}, expected ${expected}`;
  if (actual.type === "string") return compareViews(actual, expected);
  const [a, b] = [actual, expected].map((view) => {
    const { data } = cloneView(view);
    const { buffer, byteOffset, byteLength } = data as ByteStorage;
    return Buffer.from(buffer, byteOffset, byteLength);
  });
  const at = a.findIndex((byte, index) => byte !== b[index]);
  return at < 0 && a.length === b.length ? "" : `byte ${at}: got ${a[at]}, expected ${b[at]}`;
}
