// Slots, lengths and windows that the paged write refuses, with nothing written; and what it does not refuse.
import { expect, test } from "vitest";
import { scatterPaKvCache } from "../../packages/functions/paged.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { bitsOf } from "./bits.js";
import {
  argument,
  cache,
  fractal,
  heads,
  int,
  keyOnly,
  ones,
  packed,
  padded,
  plain,
  refuse,
  strided,
} from "./refusals.js";

refuse([
  {
    name: "a slot past the cache",
    base: plain,
    inputs: { slotMapping: int([3], [0, 8, 1]) },
    throws: /slot_mapping\[1\] must be below num_blocks \* block_size = 8, got 8/,
    ...argument,
  },
  {
    name: "a slot past every number",
    base: plain,
    inputs: { slotMapping: new Tensor("int64", [0n, 1n, 2n ** 62n], [3]) },
    throws: /slot_mapping\[2\] must be below/,
    ...argument,
  },
  {
    name: "a slot past a PA_NZ cache",
    base: fractal,
    inputs: { slotMapping: int([3], [0, 5, 9]) },
    throws: /slot_mapping\[2\] must be below num_blocks \* block_size = 8, got 9/,
    ...argument,
  },
  {
    name: "a slot past an NHSD cache",
    base: heads,
    inputs: { slotMapping: int([3], [0, 1, 8]) },
    throws: /slot_mapping\[2\] must be below num_blocks \* block_size = 8, got 8/,
    ...argument,
  },
  {
    name: "a slot twice, checked",
    base: plain,
    inputs: { slotMapping: int([3], [5, 0, 5]) },
    options: { check: true },
    throws: /slot_mapping\[0\] and slot_mapping\[2\] both write slot 5/,
    ...argument,
  },
  {
    name: "runs that overlap, checked",
    base: () => packed("Rope"),
    inputs: { slotMapping: int([4], [0, 2, 6, 8]) },
    options: { check: true },
    throws: /slot_mapping\[0\] and slot_mapping\[1\] both write slot 2/,
    ...argument,
  },
  {
    name: "sequences that do not sum up",
    base: () => packed("Rope"),
    inputs: { seqLens: int([2], [3, 3]) },
    throws: /seq_lens must sum to the tokens of key, got 6 and 5/,
    ...argument,
  },
  {
    name: "an empty sequence",
    base: () => packed("Omni"),
    inputs: { seqLens: int([2], [5, 0]) },
    throws: /seq_lens\[1\] must be at least 1, got 0/,
    ...argument,
  },
  {
    name: "a negative length",
    base: () => packed("Alibi"),
    inputs: { seqLens: int([2], [6, -1]) },
    throws: /seq_lens\[1\] must be at least 1, got -1/,
    ...argument,
  },
  {
    name: "a sequence longer than its padding",
    base: () => padded(true),
    inputs: { seqLens: int([2], [3, 4]) },
    throws: /seq_lens\[1\] must be at most the seq_len of key, 3, got 4/,
    ...argument,
  },
  {
    name: "Alibi: more kept than there are",
    base: () => packed("Alibi"),
    inputs: { compressLens: int([4], [1, 2, 3, 1]) },
    throws: /compress_lens\[2\], the tokens kept, must lie in \[0, 2\], got 3/,
    ...argument,
  },
  {
    name: "Alibi: less than nothing kept",
    base: () => packed("Alibi"),
    inputs: { compressLens: int([4], [1, -1, 1, 1]) },
    throws: /compress_lens\[1\], the tokens kept, must lie in \[0, 3\], got -1/,
    ...argument,
  },
  {
    name: "Rope: a window longer than the sequence",
    base: () => packed("Rope"),
    inputs: { compressLens: int([4], [4, 2, 1, 1]) },
    throws: /compress_lens\[0\], the tokens averaged, must lie in \[0, 3\], got 4/,
    ...argument,
  },
  {
    name: "Omni: a negative window",
    base: () => packed("Omni"),
    inputs: { compressLens: int([4], [1, 2, -2, 1]) },
    throws: /compress_lens\[2\], the tokens dropped, must lie in \[0, 2\], got -2/,
    ...argument,
  },
  {
    name: "Rope: a window past the end",
    base: () => packed("Rope"),
    inputs: { compressSeqOffset: int([4], [0, 2, 0, 0]) },
    throws: /compress_seq_offset\[1\] \+ compress_lens\[1\] must be at most seq_lens, got 2 \+ 2 > 3/,
    ...argument,
  },
  {
    name: "4-D: a window past the end",
    base: () => padded(true),
    inputs: { compressSeqOffset: int([4], [3, 1, 0, 0]) },
    throws: /compress_seq_offset\[0\] \+ compress_lens\[0\] must be at most seq_lens, got 3 \+ 1 > 3/,
    ...argument,
  },
  {
    name: "4-D: more kept than there are",
    base: () => padded(false),
    inputs: { compressLens: int([4], [1, 2, 1, 3]) },
    throws: /compress_lens\[3\], the tokens kept, must lie in \[0, 2\], got 3/,
    ...argument,
  },
  {
    name: "Alibi: a run past the cache",
    base: () => packed("Alibi"),
    inputs: { slotMapping: int([4], [0, 11, 6, 8]) },
    throws: /slot_mapping\[1\] \+ the 2 vectors stored must be at most num_blocks \* block_size = 12, got 11 \+ 2/,
    ...argument,
  },
  {
    name: "Rope: a run past the cache",
    base: () => packed("Rope"),
    inputs: { slotMapping: int([4], [10, 3, 6, 8]) },
    throws: /slot_mapping\[0\] \+ the 3 vectors stored must be at most .* = 12, got 10 \+ 3/,
    ...argument,
  },
  {
    name: "Omni: a run past the cache",
    base: () => packed("Omni"),
    inputs: { slotMapping: int([4], [11, 3, 6, 8]) },
    throws: /slot_mapping\[0\] \+ the 2 vectors stored must be at most .* = 12, got 11 \+ 2/,
    ...argument,
  },
  {
    name: "Rope: more vectors than slots",
    base: () => packed("Rope"),
    inputs: { keyCache: cache([2, 3, 1, 4]), valueCache: cache([2, 3, 1, 3]), slotMapping: int([4], [0, 3, 1, 4]) },
    throws: /the runs store 9 vectors, num_blocks \* block_size has room for 6/,
    ...argument,
  },
  {
    name: "Omni: more vectors than slots",
    base: () => packed("Omni"),
    inputs: { keyCache: cache([1, 5, 1, 4]), valueCache: cache([1, 5, 1, 3]), slotMapping: int([4], [0, 3, 1, 3]) },
    throws: /the runs store 6 vectors, num_blocks \* block_size has room for 5/,
    ...argument,
  },
  {
    name: "Alibi: more vectors than slots",
    base: () => packed("Alibi"),
    inputs: { keyCache: cache([1, 4, 1, 4]), valueCache: cache([1, 4, 1, 3]), slotMapping: int([4], [0, 1, 1, 3]) },
    throws: /the runs store 5 vectors, num_blocks \* block_size has room for 4/,
    ...argument,
  },
  {
    name: "the mean of HiFloat8",
    base: () => {
      const [inputs] = packed("Rope");
      return [
        {
          ...inputs,
          key: ones([5, 2, 4], "uint8"),
          value: ones([5, 2, 3], "uint8"),
          keyCache: cache([4, 3, 1, 4], "uint8"),
          valueCache: cache([4, 3, 1, 3], "uint8"),
        },
        { scatterMode: "Rope", hifloat8: true },
      ];
    },
    throws: /ONNX has no HiFloat8 to compute it in: the bytes can be moved, not averaged/,
    ...argument,
  },
]);

test("the calls that the refusals start from are right", () => {
  for (const base of [plain, keyOnly, fractal, strided, heads, () => padded(true), () => padded(false)]) {
    expect(() => scatterPaKvCache(...base())).not.toThrow();
  }
  for (const mode of ["Alibi", "Rope", "Omni"] as const) expect(() => scatterPaKvCache(...packed(mode))).not.toThrow();
});

test("HiFloat8 is moved, and in Rope too where nothing is averaged", () => {
  const [inputs] = packed("Rope");
  const bytes = {
    ...inputs,
    key: ones([5, 2, 4], "uint8"),
    value: ones([5, 2, 3], "uint8"),
    keyCache: cache([6, 3, 1, 4], "uint8"),
    valueCache: cache([6, 3, 1, 3], "uint8"),
    slotMapping: int([4], [0, 3, 6, 9]),
  };
  const kept = { ...bytes, compressSeqOffset: int([4], [-1, -1, -1, -1]) };
  expect(bitsOf(scatterPaKvCache(kept, { scatterMode: "Rope", hifloat8: true }).keyCache).slice(0, 4)).toEqual([
    1, 1, 1, 1,
  ]);
  expect(() => scatterPaKvCache(bytes, { scatterMode: "Omni", hifloat8: true })).not.toThrow();
});

test("in place, both caches in the same bytes are refused; apart in one buffer they are not", () => {
  const buffer = new ArrayBuffer(32);
  const at = (start: number): Tensor => new Tensor("int32", new Int32Array(buffer, start, 2), [1, 2, 1, 1]);
  const key = new Tensor("int32", [5], [1, 1, 1]);
  const slotMapping = int([1], [1]);
  const call = (first: number, second: number): unknown =>
    scatterPaKvCache({ key, value: key, keyCache: at(first), valueCache: at(second), slotMapping }, { inPlace: true });
  expect(() => call(0, 4)).toThrow(/lie in the same bytes/);
  expect([...new Int32Array(buffer)]).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
  call(0, 8);
  expect([...new Int32Array(buffer)]).toEqual([0, 5, 0, 5, 0, 0, 0, 0]);
});

test("in place, rows that lie inside the cache they go to are read first", () => {
  const data = Int32Array.of(1, 2, 3, 4);
  const keyCache = new Tensor("int32", data, [2, 2, 1, 1]);
  const key = new Tensor("int32", data.subarray(0, 3), [3, 1, 1]);
  scatterPaKvCache({ key, keyCache, slotMapping: int([3], [1, 2, 3]) }, { inPlace: true });
  expect([...data]).toEqual([1, 1, 2, 3]);
});
