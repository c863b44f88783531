/** Rounding to the float types: what a value becomes by being stored as one. */
import { unreachable } from "../../base/error.js";
import type { ElementType } from "../../tensor/element-type.js";
import { decodeTable, encodeFloat } from "../../tensor/float.js";

/** The function that rounds a number to `type`, one of the floats that arithmetic is defined on. */
export function rounder(type: ElementType): (value: number) => number {
  switch (type) {
    case "float64":
      return (value) => value;
    case "float32":
      return Math.fround;
    case "float16":
    case "bfloat16": {
      const table = decodeTable(type);
      return (value) => table[encodeFloat(type, value)];
    }
    default:
      return unreachable(`${type} is no float to compute in`);
  }
}
