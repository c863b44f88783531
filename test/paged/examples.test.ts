// The worked examples of the operator's contract, number for number. A dash stands for an element that keeps what it held.
import { expect, test } from "vitest";
import { gatherPaKvCache, scatterPaKvCache, type ScatterPaKvCacheOptions } from "../../packages/functions/paged.js";
import { readNumbers, writeNumbers } from "../../src/tensor/access.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { indices } from "./bits.js";

const untouched = -9;
const _ = untouched;

function tensor(type: ElementType, shape: readonly number[], values: readonly number[]): Tensor {
  const view = View.allocate(type, shape);
  writeNumbers(view, values);
  return Tensor.fromView(view);
}

const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);
const range = (count: number, from = 0): number[] => Array.from({ length: count }, (_value, i) => from + i);
const cache = (shape: readonly number[], type: ElementType = "float32"): Tensor =>
  tensor(type, shape, new Array<number>(product(shape)).fill(untouched));
const numbers = (found: Tensor | undefined): number[] => Array.from(readNumbers(found!.toView()));
const int = (shape: readonly number[], values: readonly number[]): Tensor => indices("int32", shape, values);

test("PA_NZ: pieces of 32 bytes, block_size apart; a negative slot is skipped", () => {
  const rows = (from: number, size: number): number[] => [0, 1, 2].flatMap((t) => range(size, from + 100 * t));
  const { keyCache, valueCache } = scatterPaKvCache(
    {
      key: tensor("float16", [3, 1, 32], rows(0, 32)),
      value: tensor("float16", [3, 1, 16], rows(1000, 16)),
      keyCache: cache([2, 2, 2, 16], "float16"),
      valueCache: cache([2, 1, 2, 16], "float16"),
      slotMapping: int([3], [3, 0, -1]),
    },
    { cacheMode: "PA_NZ", scatterMode: "None" },
  );
  const expectedKeys = new Array<number>(128).fill(untouched);
  range(16).forEach((i) => {
    expectedKeys[80 + i] = i;
    expectedKeys[112 + i] = 16 + i;
    expectedKeys[i] = 100 + i;
    expectedKeys[32 + i] = 116 + i;
  });
  const expectedValues = new Array<number>(64).fill(untouched);
  range(16).forEach((i) => {
    expectedValues[48 + i] = 1000 + i;
    expectedValues[i] = 1100 + i;
  });
  expect(numbers(keyCache)).toEqual(expectedKeys);
  expect(numbers(valueCache)).toEqual(expectedValues);
});

const slots = int([3], [2, -1, 1]);
const norm = (): { keyCache: Tensor; valueCache: Tensor } => ({
  keyCache: cache([2, 2, 2, 2]),
  valueCache: cache([2, 2, 2, 1]),
});

test("Norm, None", () => {
  const key = tensor("float32", [3, 2, 2], [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]);
  const value = tensor("float32", [3, 2, 1], [100, 101, 110, 111, 120, 121]);
  const { keyCache, valueCache } = scatterPaKvCache(
    { key, value, ...norm(), slotMapping: slots },
    { cacheMode: "Norm", scatterMode: "None" },
  );
  expect(numbers(keyCache)).toEqual([_, _, _, _, 20, 21, 22, 23, 0, 1, 2, 3, _, _, _, _]);
  expect(numbers(valueCache)).toEqual([_, _, 120, 121, 100, 101, _, _]);
});

test("Norm, Nct: two column ranges of fused rows", () => {
  const fused = tensor("float32", [3, 10], [...range(10), ...range(10, 10), ...range(10, 20)]);
  const { keyCache, valueCache } = scatterPaKvCache(
    { key: fused, value: fused, ...norm(), slotMapping: slots },
    { cacheMode: "Norm", scatterMode: "Nct", strides: [10, 10], offsets: [4, 8] },
  );
  expect(numbers(keyCache)).toEqual([_, _, _, _, 24, 25, 26, 27, 4, 5, 6, 7, _, _, _, _]);
  expect(numbers(valueCache)).toEqual([_, _, 28, 29, 8, 9, _, _]);
});

test("Norm, Nct: values advance by their own stride", () => {
  const { keyCache, valueCache } = scatterPaKvCache(
    {
      key: tensor("float32", [17], range(17)),
      value: tensor("float32", [8], range(8, 100)),
      ...norm(),
      slotMapping: int([3], [0, 1, 2]),
    },
    { scatterMode: "Nct", strides: [6, 3], offsets: [1, 0] },
  );
  expect(numbers(keyCache)).toEqual([...range(4, 1), ...range(4, 7), ...range(4, 13), _, _, _, _]);
  expect(numbers(valueCache)).toEqual([100, 101, 103, 104, 106, 107, _, _]);
});

/** key[b][j][h] = 100b + 10j + h, and values a thousand more. */
const padded = (from: number): Tensor =>
  tensor(
    "float32",
    [2, 4, 2, 1],
    range(16).map((i) => from + 100 * Math.floor(i / 8) + 10 * (Math.floor(i / 2) % 4) + (i % 2)),
  );

/** key[t][h] = 10t + h */
const packed = (tokens: number, from = 0): Tensor =>
  tensor(
    "float32",
    [tokens, 2, 1],
    range(2 * tokens).map((i) => from + 10 * Math.floor(i / 2) + (i % 2)),
  );

/** Keys and the same plus a thousand as values, into caches of slots that hold one number each. */
function compressed(
  rows: (from: number) => Tensor,
  places: readonly [blocks: number, blockSize: number],
  given: { slotMapping: Tensor; compressLens: Tensor; seqLens: Tensor; compressSeqOffset?: Tensor },
  options: ScatterPaKvCacheOptions = {},
): number[] {
  const shape = [...places, 1, 1];
  const { keyCache, valueCache } = scatterPaKvCache(
    { key: rows(0), value: rows(1000), keyCache: cache(shape), valueCache: cache(shape), ...given },
    options,
  );
  expect(numbers(valueCache)).toEqual(numbers(keyCache).map((key) => (key === untouched ? key : key + 1000)));
  return numbers(keyCache);
}

test("4-D, mean", () => {
  const found = compressed(padded, [3, 4], {
    slotMapping: int([2, 2], [0, 3, 7, 9]),
    compressLens: int([2, 2], [2, 1, 2, 3]),
    compressSeqOffset: int([4], [1, 0, 1, 0]),
    seqLens: int([2], [4, 3]),
  });
  expect(found).toEqual([0, 15, 30, 1, 11, 21, 31, 100, 115, 111, _, _]);
});

test("4-D, keep last", () => {
  const found = compressed(padded, [3, 4], {
    slotMapping: int([2, 2], [0, 2, 5, 6]),
    compressLens: int([4], [2, 3, 1, 3]),
    seqLens: int([2], [4, 3]),
  });
  expect(found).toEqual([20, 30, 11, 21, 31, 120, 101, 111, 121, _, _, _]);
});

test("Alibi keeps the last tokens", () => {
  const found = compressed(
    (from) => packed(5, from),
    [2, 4],
    { slotMapping: int([4], [0, 2, 5, 6]), compressLens: int([4], [2, 3, 1, 0]), seqLens: int([2], [3, 2]) },
    { scatterMode: "Alibi" },
  );
  expect(found).toEqual([10, 20, 1, 11, 21, 40, _, _]);
});

const seven = (from: number): Tensor => packed(7, from);
const windows = {
  compressLens: int([4], [2, 0, 2, 5]),
  compressSeqOffset: int([4], [1, 0, 1, -1]),
  seqLens: int([2], [4, 3]),
};

test("Rope stores the mean of a window", () => {
  const found = compressed(seven, [3, 4], { slotMapping: int([4], [0, 3, 7, 9]), ...windows }, { scatterMode: "Rope" });
  expect(found).toEqual([0, 15, 30, 1, 11, 21, 31, 40, 55, 41, 51, 61]);
});

test("Omni drops it", () => {
  const found = compressed(seven, [3, 4], { slotMapping: int([4], [0, 2, 6, 7]), ...windows }, { scatterMode: "Omni" });
  expect(found).toEqual([0, 30, 1, 11, 21, 31, 40, 41, 51, 61, _, _]);
});

test("a window of the whole sequence: Rope stores one mean, Omni nothing", () => {
  const given = {
    slotMapping: int([2], [1, 3]),
    compressLens: int([2], [2, 2]),
    compressSeqOffset: int([2], [0, 0]),
    seqLens: int([1], [2]),
  };
  const two = (from: number): Tensor => packed(2, from);
  expect(compressed(two, [1, 4], given, { scatterMode: "Rope" })).toEqual([_, 5, _, 6]);
  expect(compressed(two, [1, 4], given, { scatterMode: "Omni" })).toEqual([_, _, _, _]);
});

/** The mean of numbers, through Rope. */
function mean(type: ElementType, values: readonly number[]): number {
  const count = values.length;
  const rows = tensor(type, [count, 1, 1], values);
  const { keyCache } = scatterPaKvCache(
    {
      key: rows,
      value: rows,
      keyCache: tensor(type, [1, 1, 1, 1], [0]),
      valueCache: tensor(type, [1, 1, 1, 1], [0]),
      slotMapping: int([1], [0]),
      compressLens: int([1], [count]),
      compressSeqOffset: int([1], [0]),
      seqLens: int([1], [count]),
    },
    { scatterMode: "Rope" },
  );
  return numbers(keyCache)[0];
}

test("means are summed in float32 and rounded to even at the end", () => {
  expect(mean("float16", [2048, 2050])).toBe(2048);
  expect(mean("float16", [2048, 2050, 2050])).toBe(2050);
  expect(mean("float16", [60000, 60000, 60000])).toBe(60000);
  expect(mean("bfloat16", [256, 258])).toBe(256);
  expect(mean("bfloat16", [258, 260])).toBe(260);
});

test("means of integers go towards zero, sums of 32 bits wrap", () => {
  expect(mean("int8", [-3, -4])).toBe(-3);
  expect(mean("int8", [127, 127, 127])).toBe(127);
  expect(mean("uint8", [255, 254])).toBe(254);
  expect(mean("int32", [2_147_483_647, 1])).toBe(-1_073_741_824);
  expect(mean("uint32", [4_294_967_295, 3])).toBe(1);
});

test("keys only", () => {
  const keyCache = cache([2, 2, 1, 3]);
  const slotMapping = int([2], [3, 0]);
  const key = tensor("float32", [2, 1, 3], [0, 1, 2, 10, 11, 12]);
  const plain = scatterPaKvCache({ key, keyCache, slotMapping }, { cacheMode: "Norm", scatterMode: "None" });
  expect(numbers(plain.keyCache)).toEqual([10, 11, 12, _, _, _, _, _, _, 0, 1, 2]);
  expect(plain.valueCache).toBeUndefined();
  const strided = scatterPaKvCache(
    { key: tensor("float32", [12], range(12)), keyCache, slotMapping },
    { scatterMode: "Nct", strides: [5, 1], offsets: [2, 0] },
  );
  expect(numbers(strided.keyCache)).toEqual([7, 8, 9, _, _, _, _, _, _, 2, 3, 4]);
});

test("keys only, with the rank-0 tensors that Ascend's call has for values", () => {
  const scalar = tensor("float32", [], [5]);
  const found = scatterPaKvCache({
    key: tensor("float32", [1, 1, 1], [7]),
    keyCache: cache([1, 2, 1, 1]),
    slotMapping: int([1], [1]),
    value: scalar,
    valueCache: scalar,
  });
  expect(numbers(found.keyCache)).toEqual([_, 7]);
  expect(numbers(found.valueCache)).toEqual([5]);
});

test("NHSD", () => {
  const key = tensor("float32", [1, 2, 2], [1, 2, 3, 4]);
  const { keyCache } = scatterPaKvCache(
    { key, value: key, keyCache: cache([2, 2, 2, 2]), valueCache: cache([2, 2, 2, 2]), slotMapping: int([1], [3]) },
    { scatterMode: "NHSD" },
  );
  expect(numbers(keyCache)).toEqual([_, _, _, _, _, _, _, _, _, _, 1, 2, _, _, 3, 4]);
});

test("the empty string and null stand for the default modes", () => {
  const key = tensor("float32", [1, 1, 1], [7]);
  for (const mode of ["", null, undefined] as const) {
    const found = scatterPaKvCache(
      { key, keyCache: cache([1, 2, 1, 1]), slotMapping: int([1], [0]) },
      { cacheMode: mode, scatterMode: mode },
    );
    expect(numbers(found.keyCache)).toEqual([7, _]);
  }
});

test("gather: offsets skip whole blocks, and past the table there are zeros", () => {
  const keyCache = tensor("float32", [4, 2, 1, 1], range(8));
  const blockTables = int([2, 3], [3, 1, 0, 2, 0, 0]);
  const gathered = (seqLens: Tensor, seqOffset?: Tensor, isSeqLensCumsum = false): number[] => {
    const { key, value } = gatherPaKvCache(
      { keyCache, valueCache: keyCache, blockTables, seqLens, seqOffset },
      { cacheMode: "Norm", isSeqLensCumsum },
    );
    expect(numbers(value)).toEqual(numbers(key));
    return numbers(key);
  };
  expect(gathered(int([2], [3, 2]))).toEqual([6, 7, 2, 4, 5]);
  expect(gathered(int([2], [3, 2]), int([2], [2, 0]))).toEqual([2, 3, 0, 4, 5]);
  expect(gathered(int([3], [0, 3, 5]), int([2], [3, 0]), true)).toEqual([2, 3, 0, 4, 5]);
  expect(gathered(int([2], [3, 2]), int([2], [4, 0]))).toEqual([0, 1, 0, 4, 5]);
});
