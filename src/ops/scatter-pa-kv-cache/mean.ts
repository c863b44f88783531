/**
 * The mean of vectors, in the arithmetic of each element type: floats in float32, in token order, rounded once at the end;
 * integers in 32 bits, divided towards zero. Sums wrap as the width says.
 */
import type { ElementType } from "../../tensor/element-type.js";
import { decodeTable, encodeFloat, isSmallFloat } from "../../tensor/float.js";
import type { View } from "../../tensor/view.js";

type Elements = Float32Array | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array;

/** Stores the mean of `count` vectors of `length` elements, `step` apart from `source` on, at `target`. */
type Average = (source: number, step: number, count: number, target: number, length: number) => void;

/** A function that averages vectors of one view into another of the same type. Places count from each view's first element. */
export function averager(from: View, to: View): Average {
  const source = from.data as Elements;
  const target = to.data as Elements;
  const add = adder(from.type);
  const decode = isSmallFloat(from.type) ? decodeTable(from.type) : undefined;
  const finish = divider(from.type);
  return (first, step, count, at, length) => {
    for (let d = 0; d < length; d++) {
      let sum = 0;
      for (let token = 0, place = from.offset + first + d; token < count; token++, place += step)
        sum = add(sum, decode === undefined ? source[place] : decode[source[place]]);
      target[to.offset + at + d] = finish(sum, count);
    }
  };
}

function adder(type: ElementType): (sum: number, next: number) => number {
  switch (type) {
    case "int8":
    case "int16":
    case "int32":
      return (sum, next) => (sum + next) | 0;
    case "uint8":
    case "uint16":
    case "uint32":
      return (sum, next) => (sum + next) >>> 0;
    default:
      return (sum, next) => Math.fround(sum + next);
  }
}

/** The quotient as the type stores it: the bit pattern of a small float, or the number. */
function divider(type: ElementType): (sum: number, count: number) => number {
  if (isSmallFloat(type)) return (sum, count) => encodeFloat(type, Math.fround(sum / Math.fround(count)));
  if (type === "float32") return (sum, count) => sum / Math.fround(count);
  return (sum, count) => Math.trunc(sum / count);
}
