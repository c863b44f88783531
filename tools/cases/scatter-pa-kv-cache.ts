import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

const scatter = (given: Omit<OpCase, "op" | "domain" | "opset">): OpCase => ({
  op: "ScatterPaKvCache",
  domain: "insitu",
  opset: 1,
  ...given,
});

const int32 = (shape: readonly number[], values: readonly number[]): View => of("int32", shape, values);
const zeros = (shape: readonly number[]): View =>
  int32(shape, new Array<number>(shape.reduce((a, b) => a * b)).fill(0));

const key = int32([2, 1, 3], [1, 2, 3, 11, 12, 13]);
const cache = zeros([2, 2, 1, 3]);
const slots = of("int64", [2], [3, 0]);

export const cases: readonly OpCase[] = [
  scatter({
    shows: "keys alone: each token's vector at its slot",
    inputs: [key, cache, slots],
    outputs: [int32([2, 2, 1, 3], [11, 12, 13, 0, 0, 0, 0, 0, 0, 1, 2, 3])],
  }),
  scatter({
    shows: "keys and values of other head sizes; a negative slot is skipped",
    inputs: [key, cache, of("int64", [2], [-1, 2]), int32([2, 1, 1], [7, 8]), zeros([2, 2, 1, 1])],
    outputs: [int32([2, 2, 1, 3], [0, 0, 0, 0, 0, 0, 11, 12, 13, 0, 0, 0]), int32([2, 2, 1, 1], [0, 0, 8, 0])],
  }),
  scatter({
    shows: "of two tokens in one slot the last one stays",
    inputs: [key, cache, of("int64", [2], [1, 1])],
    outputs: [int32([2, 2, 1, 3], [0, 0, 0, 11, 12, 13, 0, 0, 0, 0, 0, 0])],
  }),
  scatter({
    shows: "check refuses two tokens in one slot",
    attrs: { check: 1 },
    inputs: [key, cache, of("int64", [2], [1, 1])],
    throws: /slot_mapping\[0\] and slot_mapping\[1\] both write slot 1/,
  }),
  scatter({
    shows: "NHSD: the slots of a block lie together for each head",
    attrs: { scatter_mode: "NHSD" },
    inputs: [
      int32([1, 2, 1], [1, 2]),
      zeros([1, 2, 2, 1]),
      of("int32", [1], [1]),
      int32([1, 2, 1], [3, 4]),
      zeros([1, 2, 2, 1]),
    ],
    outputs: [int32([1, 2, 2, 1], [0, 1, 0, 2]), int32([1, 2, 2, 1], [0, 3, 0, 4])],
  }),
  scatter({
    shows: "rows inside a wider buffer",
    attrs: { scatter_mode: "Nct", strides: [5, 1], offsets: [2, 0] },
    inputs: [int32([12], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), cache, slots],
    outputs: [int32([2, 2, 1, 3], [7, 8, 9, 0, 0, 0, 0, 0, 0, 2, 3, 4])],
  }),
  scatter({
    shows: "no tokens change nothing",
    inputs: [int32([0, 1, 3], []), cache, of("int64", [0], [])],
    outputs: [cache],
  }),
  scatter({
    shows: "a slot past the cache is refused",
    inputs: [key, cache, of("int64", [2], [0, 4])],
    throws: /slot_mapping\[1\] must be below num_blocks \* block_size = 4, got 4/,
  }),
  scatter({
    shows: "an unknown mode is refused by name",
    attrs: { scatter_mode: "Ring" },
    inputs: [key, cache, slots],
    throws: /"scatter_mode" must be one of "None", "Nct", "Alibi", "Rope", "Omni", "NHSD", got string Ring/,
  }),
  scatter({
    shows: "values without their cache are refused",
    inputs: [key, cache, slots, key],
    throws: /value is given without value_cache/,
  }),
];
