/** The order of a tensor's elements, for the operators that sort or look for extremes. Knows every type that has an order. */
import { unreachable } from "../../../base/error.js";
import { isWide, readBigInts, readNumbers, readStrings } from "../../../tensor/access.js";
import { contiguous } from "../../../tensor/copy.js";
import { traitsOf } from "../../../tensor/element-type.js";
import type { View } from "../../../tensor/view.js";

/** Compares the elements at two row-major positions: negative, 0 or positive. */
type PositionOrder = (a: number, b: number) => number;

/** By code points, as bytes of UTF-8 compare; JavaScript's own order differs outside the basic plane. */
function compareStrings(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x === y) continue;
    const surrogates = [x, y].map((unit) => unit >= 0xd800 && unit <= 0xdfff);
    return surrogates[0] === surrogates[1] ? x - y : surrogates[0] ? 1 : -1;
  }
  return a.length - b.length;
}

/** Ascending; NaNs equal each other and come last, or first. −0 equals 0. */
function compareNumbers(a: number, b: number, nans: "last" | "first"): number {
  if (a < b) return -1;
  if (a > b) return 1;
  if (a === b) return 0;
  const [x, y] = [Number.isNaN(a), Number.isNaN(b)];
  return x === y ? 0 : x === (nans === "last") ? 1 : -1;
}

/** The ascending order of a view's elements. Complex numbers compare by their real parts, then by their imaginary ones. */
export function orderOf(view: View, nans: "last" | "first" = "last"): PositionOrder {
  if (isWide(view.type)) {
    const values = readBigInts(view);
    return (a, b) => (values[a] < values[b] ? -1 : values[a] > values[b] ? 1 : 0);
  }
  const { kind } = traitsOf(view.type);
  switch (kind) {
    case "string": {
      const values = readStrings(view);
      return (a, b) => compareStrings(values[a], values[b]);
    }
    case "complex": {
      const plain = contiguous(view);
      const pairs = plain.data as Float32Array | Float64Array;
      const part = (position: number, offset: number): number => pairs[2 * (plain.offset + position) + offset];
      return (a, b) => compareNumbers(part(a, 0), part(b, 0), nans) || compareNumbers(part(a, 1), part(b, 1), nans);
    }
    case "float":
    case "integer":
    case "bool": {
      const values = readNumbers(view);
      return (a, b) => compareNumbers(values[a], values[b], nans);
    }
    default:
      return unreachable(`no order for ${kind satisfies never}`);
  }
}
