/** Unsigned integers of 2, 4 or 8 bits packed into bytes, the first in the lowest bits: how onnxruntime's quantized weights lie. */

/** The value at `index` of the row that starts at byte `start`. */
export function lowBitsAt(bytes: ArrayLike<number>, bits: number, start: number, index: number): number {
  const bit = index * bits;
  return (bytes[start + Math.floor(bit / 8)] >> (bit % 8)) & ((1 << bits) - 1);
}

/** How many bytes a row of `count` values takes. */
export const lowBitsLength = (count: number, bits: number): number => Math.ceil((count * bits) / 8);

/** True if `size` may be the size of a block: a power of 2 from 16 on. */
export const isBlockSize = (size: number): boolean => size >= 16 && Number.isInteger(Math.log2(size));
