/**
 * Experts' weights as MXFP4: blocks of 32 with a power of two before 16 bytes of which each has an element of either half. The weights must be values that both have,
 * as those of tools/demo are.
 */
import type { ModelTensor } from "#insitu/onnx/model.js";
import { tensorView } from "#insitu/onnx/model.js";
import { readNumbers } from "#insitu/tensor/access.js";
import { decodeTable } from "#insitu/tensor/float.js";

/** MXFP4's codes of values of 4 bits around 8: its values are half as large. Others have none. */
const codes: readonly (number | undefined)[] = Array.from({ length: 16 }, (_, level) => {
  const size = [0, 1, 2, 3, 4, 6].indexOf(Math.abs(level - 8));
  const code = size === 5 ? 5 : size;
  return size < 0 ? undefined : level < 8 ? code | 8 : code;
});

/** What was converted, by what it was converted from: layers may have the same memory. */
const made = new WeakMap<object, Map<number, Uint8Array>>();

/** Every `step`th row from `offset` on: levels [experts, rows, bytes], scales [experts, rows, blocks] of blocks of 32. */
export function expertBlocks(levels: ModelTensor, scales: ModelTensor, step: number, offset: number): Uint8Array {
  const own = made.get(levels.data!) ?? new Map<number, Uint8Array>();
  made.set(levels.data!, own);
  const blocks = own.get(offset) ?? convert(levels, scales, step, offset);
  own.set(offset, blocks);
  return blocks;
}

function convert(levels: ModelTensor, scales: ModelTensor, step: number, offset: number): Uint8Array {
  const [experts, rows, half] = levels.dims;
  const bytes = levels.data as Uint8Array;
  const factors = readNumbers(tensorView(scales));
  const blocks = half / 16;
  const result = new Uint8Array(((experts * rows) / step) * blocks * 17);
  // Two bytes that lie side by side become two bytes of each half.
  const table = Uint8Array.from({ length: 256 }, (_, byte) => (codes[byte & 15] ?? 0) | ((codes[byte >> 4] ?? 0) << 4));
  let to = 0;
  for (let row = offset; row < experts * rows; row += step)
    for (let block = 0; block < blocks; block++) {
      const from = row * half + block * 16;
      // Its values are halves of ours: E8M0's 127 is 1.
      result[to++] = 127 + Math.log2(factors[row * blocks + block]) + 1;
      for (let at = 0; at < 16; at += 2) {
        const low = table[bytes[from + (at >> 1)]];
        const high = table[bytes[from + 8 + (at >> 1)]];
        result[to++] = (low & 15) | ((high & 15) << 4);
        result[to++] = (low >> 4) | (high & 240);
      }
    }
  return result;
}

/** The values of Q4_0. */
export function readBlocksAsFloats(blocks: Uint8Array): Float32Array<ArrayBuffer> {
  const result = new Float32Array((blocks.length / 18) * 32);
  const decode = decodeTable("float16");
  for (let block = 0; 18 * block < blocks.length; block++) {
    const from = 18 * block;
    const scale = decode[blocks[from] | (blocks[from + 1] << 8)];
    for (let at = 0; at < 16; at++) {
      result[32 * block + at] = scale * ((blocks[from + 2 + at] & 15) - 8);
      result[32 * block + 16 + at] = scale * ((blocks[from + 2 + at] >> 4) - 8);
    }
  }
  return result;
}
