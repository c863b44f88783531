/**
 * Elements of 2, 4 and 6 bits as ONNX packs them: one after the other, lowest bits first, in a Uint8Array; a 6-bit element
 * may lie across two bytes. Knows bit patterns, not what they mean.
 */

/** One element of a packed type, as its raw bit pattern. */
export function packedBits(data: Uint8Array, bits: number, index: number): number {
  const position = index * bits;
  const byte = Math.floor(position / 8);
  const shift = position & 7;
  const across = shift + bits > 8 ? data[byte + 1] << 8 : 0;
  return ((data[byte] | across) >> shift) & ((1 << bits) - 1);
}

/** Writes one element of a packed type and leaves its neighbours in the bytes alone. */
export function setPackedBits(data: Uint8Array, bits: number, index: number, value: number): void {
  const position = index * bits;
  const byte = Math.floor(position / 8);
  const shift = position & 7;
  const mask = ((1 << bits) - 1) << shift;
  const placed = (value << shift) & mask;
  data[byte] = (data[byte] & ~mask) | placed;
  if (shift + bits > 8) data[byte + 1] = (data[byte + 1] & ~(mask >> 8)) | (placed >> 8);
}

/** The least number of elements that fill whole bytes. */
const elementsPerUnit = (bits: number): number => (bits === 4 ? 2 : 4);

/** How far `target` begins after `source` in bytes where both lie in one buffer, else 0. */
export const bytesBetween = (source: ArrayBufferView, target: ArrayBufferView): number =>
  source.buffer === target.buffer ? target.byteOffset - source.byteOffset : 0;

/** Copies `count` elements between places that may overlap: whole bytes at once where both lie alike in their bytes. */
export function copyPacked(
  source: Uint8Array,
  start: number,
  target: Uint8Array,
  at: number,
  count: number,
  bits: number,
): void {
  const single = (i: number): void => setPackedBits(target, bits, at + i, packedBits(source, bits, start + i));
  const unit = elementsPerUnit(bits);
  const alike = start % unit === at % unit;
  // Elements before the first whole unit, and past the last one.
  const head = alike ? Math.min((unit - (start % unit)) % unit, count) : count;
  const tail = count - ((count - head) % unit);
  const middle = (): void => {
    if (tail === head) return;
    const [from, to] = [((start + head) * bits) / 8, ((at + head) * bits) / 8];
    target.set(source.subarray(from, from + ((tail - head) * bits) / 8), to);
  };
  // Toward higher places the last element goes first, so that none is overwritten before it was read.
  if (bytesBetween(source, target) * 8 + (at - start) * bits > 0) {
    for (let i = count - 1; i >= tail; i--) single(i);
    middle();
    for (let i = head - 1; i >= 0; i--) single(i);
  } else {
    for (let i = 0; i < head; i++) single(i);
    middle();
    for (let i = tail; i < count; i++) single(i);
  }
}
