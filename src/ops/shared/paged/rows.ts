/**
 * Moving whole vectors into a cache whose slots lie one after the other: one bulk copy a vector, or a run of them. A decoder
 * hands over the same memory at every step, so the views that bulk copies need are kept: such a step allocates nothing.
 */
import { type ByteStorage, byteLengthOf } from "../../../tensor/element-type.js";
import type { View } from "../../../tensor/view.js";
import { bytesOf } from "./layouts.js";

/** Vectors that begin at `start`, `stride` bytes apart. */
interface Rows {
  readonly start: number;
  readonly stride: number;
  readonly bytes: number;
  readonly views: Uint8Array[];
}

/** By array: views of its vectors, or undefined once it was seen. An array that never comes back is not worth them. */
const kept = new WeakMap<ByteStorage, Rows | undefined>();

/** Calls with more vectors make their views anew. */
const mostKept = 256;

function keptRows(data: ByteStorage, start: number, stride: number, bytes: number, count: number): Rows | undefined {
  if (count > mostKept) return undefined;
  const rows = kept.get(data);
  if (rows === undefined) {
    const seen = kept.has(data);
    kept.set(data, seen ? { start, stride, bytes, views: [] } : undefined);
    return kept.get(data);
  }
  if (rows.start === start && rows.stride === stride && rows.bytes === bytes) return rows;
  kept.set(data, undefined);
  return undefined;
}

/**
 * Writes vectors of `length` elements, `step` apart in `from` after `first`, into the slots of a contiguous cache; a negative
 * slot is skipped, a later vector in the same slot stays. The two views do not overlap.
 */
export function moveVectors(
  from: View,
  to: View,
  length: number,
  slots: ArrayLike<number>,
  first: number,
  step: number,
): void {
  const data = from.data as ByteStorage;
  const { buffer } = data;
  const width = byteLengthOf(from.type, 1);
  const bytes = length * width;
  const stride = step * width;
  const start = data.byteOffset + (from.offset + first) * width;
  const target = bytesOf(to);
  const rows = keptRows(data, start, stride, bytes, slots.length);
  for (let token = 0; token < slots.length;) {
    const slot = slots[token];
    let count = 1;
    // Neighbours that go to neighbouring slots are moved together.
    if (stride === bytes)
      while (slot >= 0 && token + count < slots.length && slots[token + count] === slot + count) count++;
    if (slot >= 0 && count === 1 && rows !== undefined)
      target.set((rows.views[token] ??= new Uint8Array(buffer, start + token * stride, bytes)), slot * bytes);
    else if (slot >= 0) target.set(new Uint8Array(buffer, start + token * stride, count * bytes), slot * bytes);
    token += count;
  }
}
