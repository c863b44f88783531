// Compares two views: an empty string when they agree, else a sentence that says where they first differ.
import { isWide, readBigInts, readNumbers, readStrings } from "../../src/tensor/access.js";
import { traitsOf } from "../../src/tensor/element-type.js";
import type { View } from "../../src/tensor/view.js";
import { contiguous } from "../../src/tensor/copy.js";

function elements(view: View): ArrayLike<number | bigint | string> {
  if (view.type === "string") return readStrings(view);
  if (isWide(view.type)) return readBigInts(view);
  if (traitsOf(view.type).kind === "complex") return contiguous(view).data;
  return readNumbers(view);
}

export function compareViews(actual: View, expected: View, { tolerance = 0 }: { tolerance?: number } = {}): string {
  if (String(actual) !== String(expected)) return `got ${actual}, expected ${expected}`;
  const a = elements(actual);
  const b = elements(expected);
  for (let i = 0; i < b.length; i++) {
    const [x, y] = [a[i], b[i]];
    if (x === y || (x !== x && y !== y)) continue;
    const close =
      typeof x === "number" && typeof y === "number" && Math.abs(x - y) <= tolerance * Math.max(1, Math.abs(y));
    if (!close) return `element ${i}: got ${x}, expected ${y}`;
  }
  return "";
}
