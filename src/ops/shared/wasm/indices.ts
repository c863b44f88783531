/** Tests on index operands that fast paths make before each run: cheap, and without a byte allocated. */
import type { Operand } from "../../../graph/kernel.js";
import type { ByteStorage } from "../../../tensor/element-type.js";

/** A test that every element of a contiguous int32 or int64 operand lies in [low, high]; it looks at the bytes each time. */
export function liesWithin({ type, view }: Operand, low: number, high: number): () => boolean {
  const { buffer, byteOffset } = view.data as ByteStorage;
  if (type === "int32") {
    const words = new Int32Array(buffer, byteOffset + view.offset * 4, view.size);
    return () => {
      for (let at = 0; at < words.length; at++) if (words[at] < low || words[at] > high) return false;
      return true;
    };
  }
  // Two words an element, the lower one first; outside of 32 bits nothing is in range.
  const words = new Int32Array(buffer, byteOffset + view.offset * 8, view.size * 2);
  return () => {
    for (let at = 0; at < words.length; at += 2) {
      const value = words[at];
      if (words[at + 1] !== value >> 31 || value < low || value > high) return false;
    }
    return true;
  };
}

/** A test that the indices of a contiguous operand point into dimensions of these sizes, by turns. What never changes is looked at once. */
export function pointsInto(indices: Operand, sizes: readonly number[]): () => boolean {
  const test =
    sizes.length === 1 ? liesWithin(indices, -sizes[0], sizes[0] - 1) : pointsIntoEach(indices, Int32Array.from(sizes));
  if (!indices.known) return test;
  const answer = test();
  return () => answer;
}

/** The same for tuples of int64. */
function pointsIntoEach({ view }: Operand, sizes: Int32Array): () => boolean {
  const { buffer, byteOffset } = view.data as ByteStorage;
  const words = new Int32Array(buffer, byteOffset + view.offset * 8, view.size * 2);
  return () => {
    for (let at = 0; at < words.length;) {
      for (let axis = 0; axis < sizes.length; axis++, at += 2) {
        const value = words[at];
        if (words[at + 1] !== value >> 31 || value < -sizes[axis] || value >= sizes[axis]) return false;
      }
    }
    return true;
  };
}
