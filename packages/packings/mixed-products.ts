/**
 * Weights of 4 or 8 bits as CUDA's mixed products read them, and as onnxruntime's tools write them for that device: columns of a product in turns, tile
 * by tile, rows as tensor cores load them, the elements of a word as they are taken apart. A pure permutation, undone here: levels stay what they are.
 */
import type { Packing } from "./packing.js";

/** Rows of a tile. */
const tile = 64;

/** The row that lies at each place of those that one instruction loads. */
const rowAt = {
  4: [
    0, 1, 8, 9, 16, 17, 24, 25, 2, 3, 10, 11, 18, 19, 26, 27, 4, 5, 12, 13, 20, 21, 28, 29, 6, 7, 14, 15, 22, 23, 30,
    31,
  ],
  8: [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15],
} as const;

/** The element that lies at each place of a word. */
const elementAt = { 4: [0, 2, 4, 6, 1, 3, 5, 7], 8: [0, 2, 1, 3] } as const;

/** How weights [outer, inner] lie; undefined for sizes that they cannot lie in. `turns`: columns in turns, which Hopper's own kernels do without. */
export function mixedProductPacking(
  bits: number,
  { outer, inner }: { readonly outer: number; readonly inner: number },
  turns: boolean,
): Packing | undefined {
  if (bits !== 4 && bits !== 8) return undefined;
  const columns = turns ? 16 / bits : 1;
  if (!(inner > 0 && outer > 0) || inner % tile !== 0 || outer % columns !== 0) return undefined;
  const [rows, elements]: (readonly number[])[] = [rowAt[bits], elementAt[bits]];
  // Where each element of a tile's columns lies among all of the tile.
  const places = Array.from({ length: columns * tile }, (_, at) => {
    const place = at - (at % rows.length) + rows.indexOf(at % rows.length);
    return place - (place % elements.length) + elements.indexOf(place % elements.length);
  });
  const perByte = 8 / bits;
  const undo = (bytes: Uint8Array): void => {
    const packed = bytes.slice();
    const level = (at: number): number => (bits === 8 ? packed[at] : (packed[at >> 1] >> (4 * (at & 1))) & 15);
    for (let start = 0; start < inner; start += tile)
      for (let at = 0; at < places.length; at += perByte) {
        const first = level(start * columns + places[at]);
        const target = (Math.floor(at / tile) * inner + start + (at % tile)) / perByte;
        bytes[target] = bits === 8 ? first : first | (level(start * columns + places[at + 1]) << 4);
      }
  };
  return { key: `mixed ${bits} ${inner} ${columns}`, unit: (columns * inner) / perByte, undo };
}
