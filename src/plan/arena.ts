/** Places buffers of known sizes and lifetimes in one stretch of memory, so that those alive at once never overlap. Pure. */

/** A buffer to place: its size, and the first and last step that need it. */
export interface Lifetime {
  readonly bytes: number;
  readonly first: number;
  readonly last: number;
}

/** Every buffer starts at a multiple of this: enough for any element and for vector loads. */
export const alignment = 64;

const aligned = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;

/** Offsets for each lifetime, in order, and the bytes that all of them take together. Largest first, each at the lowest free place. */
export function packArena(lifetimes: readonly Lifetime[]): {
  readonly offsets: readonly number[];
  readonly bytes: number;
} {
  const offsets = new Array<number>(lifetimes.length).fill(0);
  const placed: number[] = []; // indices in order of offset
  const bySize = lifetimes.map((_, index) => index).sort((a, b) => lifetimes[b].bytes - lifetimes[a].bytes || a - b);
  let total = 0;
  for (const index of bySize) {
    const { bytes, first, last } = lifetimes[index];
    const size = aligned(bytes);
    if (size === 0) continue;
    let offset = 0;
    for (const other of placed) {
      const rival = lifetimes[other];
      if (rival.last < first || rival.first > last) continue;
      if (offset + size <= offsets[other]) break;
      offset = Math.max(offset, offsets[other] + aligned(rival.bytes));
    }
    offsets[index] = offset;
    const at = placed.findIndex((other) => offsets[other] > offset);
    placed.splice(at < 0 ? placed.length : at, 0, index);
    total = Math.max(total, offset + bytes);
  }
  return { offsets, bytes: total };
}
