/**
 * One vector as bytes and a scale: symmetric, in float32. The scale is the largest magnitude over the type's largest value; each
 * byte is the nearest to value / scale, halves to even. A vector with NaN or infinities has that for its scale, and reads back as NaN.
 */
import { unreachable } from "../../base/error.js";
import type { ElementType } from "../../tensor/element-type.js";
import { encodeFloat, roundToEven } from "../../tensor/float.js";

/** The largest value of a type that pages are kept in. */
function largestOf(type: ElementType): number {
  switch (type) {
    case "int8":
      return 127;
    case "float8e4m3fn":
      return 448;
    case "float8e5m2":
      return 57344;
    default:
      return unreachable(`${type} is no type of quantised pages`);
  }
}

/** Encodes `size` float32 values from `at` on; `write` takes each one's bits (int8: the integer). Returns the scale. */
export function quantizeVector(
  values: ArrayLike<number>,
  at: number,
  size: number,
  type: ElementType,
  write: (i: number, bits: number) => void,
): number {
  let largest = 0;
  for (let i = 0; i < size; i++) largest = Math.max(largest, Math.abs(values[at + i]));
  const scale = Math.fround(largest / largestOf(type));
  const usable = scale > 0 && scale < Infinity;
  for (let i = 0; i < size; i++) {
    const ratio = usable ? Math.fround(values[at + i] / scale) : 0;
    write(
      i,
      type === "int8" ? bounded(roundToEven(ratio)) : encodeFloat(type as "float8e5m2", ratio, { saturate: true }),
    );
  }
  return scale;
}

/** The largest of a vector of tiny values may lie above 127 of its rounded scales. */
const bounded = (value: number): number => Math.max(-127, Math.min(127, value));
