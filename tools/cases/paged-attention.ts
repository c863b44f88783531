import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

const attend = (given: Omit<OpCase, "op" | "domain" | "opset">): OpCase => ({
  op: "PagedAttention",
  domain: "insitu",
  opset: 1,
  ...given,
});

const floats = (shape: readonly number[], values: readonly number[]): View => of("float32", shape, values);
/** Queries and keys of zeros: every attended row weighs the same. */
const zeros = (...shape: number[]): View => floats(shape, new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(0));
const int32 = (shape: readonly number[], values: readonly number[]): View => of("int32", shape, values);
const int64 = (shape: readonly number[], values: readonly number[]): View => of("int64", shape, values);

const query = zeros(1, 1, 1, 1);
const keys = zeros(3, 2, 1, 1);
const values = floats([3, 2, 1, 1], [1, 2, 4, 8, 16, 32]);
const table = int32([1, 2], [2, 0]);

const results: readonly OpCase[] = [
  attend({
    shows: "rows in the order of the table: blocks 2 and 0, three rows of them",
    inputs: [query, keys, values, table, int32([1], [3])],
    outputs: [floats([1, 1, 1, 1], [49 / 3])],
    tolerance: 1e-6,
  }),
  attend({
    shows: "entries behind the last block that is needed are not looked at; sums are zero behind the length",
    inputs: [query, keys, values, int64([1, 3], [1, -1, 99]), int64([1], [2])],
    outputs: [floats([1, 1, 1, 1], [6]), floats([1, 1, 6], [0.5, 0.5, 0, 0, 0, 0])],
  }),
  attend({
    shows: "a sample of length 0 gives zeros",
    inputs: [zeros(2, 1, 1, 1), keys, values, int32([2, 1], [-1, 0]), int32([2], [0, 1])],
    outputs: [floats([2, 1, 1, 1], [0, 1])],
  }),
  attend({
    shows: "causality ends with the last valid row; queries before the start see nothing",
    attrs: { is_causal: 1 },
    inputs: [zeros(1, 1, 3, 1), keys, values, table, int32([1], [2])],
    outputs: [floats([1, 1, 3, 1], [0, 16, 24]), floats([1, 1, 4], [1.5, 0.5, 0, 0])],
  }),
  attend({
    shows: "a window of the query's own row and one before it",
    attrs: { is_causal: 1, left_window_size: 1 },
    inputs: [query, keys, values, table, int32([1], [4])],
    outputs: [floats([1, 1, 1, 1], [1.5])],
  }),
  attend({
    shows: "query heads share key heads in groups; packed queries tell their heads",
    attrs: { q_num_heads: 4 },
    inputs: [
      zeros(1, 1, 4),
      zeros(1, 1, 2, 1),
      floats([1, 1, 2, 2], [5, 6, 7, 8]),
      int32([1, 1], [0]),
      int32([1], [1]),
    ],
    outputs: [floats([1, 1, 8], [5, 6, 5, 6, 7, 8, 7, 8])],
  }),
  attend({
    shows: "NHSD: the rows of a head lie together",
    attrs: { cache_mode: "NHSD" },
    inputs: [
      zeros(1, 2, 1, 1),
      zeros(1, 2, 2, 1),
      floats([1, 2, 2, 1], [1, 3, 10, 30]),
      int32([1, 1], [0]),
      int32([1], [2]),
    ],
    outputs: [floats([1, 2, 1, 1], [2, 20])],
  }),
  attend({
    shows: "PA_NZ: a head in pieces of 32 bytes",
    attrs: { cache_mode: "PA_NZ" },
    inputs: [
      zeros(1, 1, 1, 16),
      zeros(1, 2, 2, 8),
      floats(
        [1, 2, 2, 8],
        Array.from({ length: 32 }, (_, i) => i),
      ),
      int32([1, 1], [0]),
      int32([1], [2]),
    ],
    outputs: [floats([1, 1, 1, 16], [4, 5, 6, 7, 8, 9, 10, 11, 20, 21, 22, 23, 24, 25, 26, 27])],
  }),
  attend({
    shows: "lengths for each head",
    inputs: [
      zeros(1, 2, 1, 1),
      zeros(1, 2, 2, 1),
      floats([1, 2, 2, 1], [1, 10, 3, 30]),
      int32([1, 1], [0]),
      int32([1, 2], [1, 2]),
    ],
    outputs: [floats([1, 2, 1, 1], [1, 20]), floats([1, 2, 2], [1, 0, 0.5, 0.5])],
  }),
  attend({
    shows: "a table for each head: pages of one head",
    inputs: [zeros(1, 2, 1, 1), keys, values, int32([1, 2, 2], [0, -1, 2, 1]), int32([1, 2], [2, 3])],
    outputs: [floats([1, 2, 1, 1], [1.5, 52 / 3])],
    tolerance: 1e-6,
  }),
  attend({
    shows: "int8 pages times the scale of their token and head",
    inputs: [
      query,
      of("int8", [1, 2, 1, 1], [0, 0]),
      of("int8", [1, 2, 1, 1], [4, -8]),
      int32([1, 1], [0]),
      int32([1], [2]),
      zeros(1, 2, 1),
      floats([1, 2, 1], [0.5, 0.25]),
    ],
    outputs: [floats([1, 1, 1, 1], [0])],
  }),
  attend({
    shows: "each head has a score more that takes part in its softmax and brings no value",
    inputs: [
      zeros(1, 2, 1, 1),
      keys,
      values,
      table,
      int32([1], [3]),
      undefined,
      undefined,
      undefined,
      floats([2], [0, Math.log(4)]),
    ],
    outputs: [floats([1, 2, 1, 1], [49 / 4, 7]), floats([1, 2, 4], [1 / 4, 1 / 4, 1 / 4, 0, 1 / 7, 1 / 7, 1 / 7, 0])],
    tolerance: 1e-6,
  }),
  attend({
    shows: "float8 pages",
    inputs: [
      query,
      of("float8e4m3fn", [1, 2, 1, 1], [0, 0]),
      of("float8e4m3fn", [1, 2, 1, 1], [448, -1.5]),
      int32([1, 1], [0]),
      int32([1], [2]),
      zeros(1, 2, 1),
      floats([1, 2, 1], [0.5, 2]),
    ],
    outputs: [floats([1, 1, 1, 1], [110.5])],
  }),
  attend({
    shows: "float16 computes in float32 and rounds once",
    inputs: [
      of("float16", [1, 1, 1, 1], [0]),
      of("float16", [1, 3, 1, 1], [0, 0, 0]),
      of("float16", [1, 3, 1, 1], [1, 2, 4]),
      int32([1, 1], [0]),
      int32([1], [3]),
    ],
    outputs: [of("float16", [1, 1, 1, 1], [7 / 3])],
  }),
];

const refuse = (
  shows: string,
  throws: RegExp,
  inputs: OpCase["inputs"],
  attrs: NonNullable<OpCase["attrs"]> = {},
): OpCase => attend({ shows, throws, inputs, attrs });

const refusals: readonly OpCase[] = [
  refuse(
    "a needed entry outside the pool",
    /block_tables\[0,1\] must lie in \[0, 2\], the blocks of the pool, since seq_lens\[0\] = 3 needs it; got 3/,
    [query, keys, values, int32([1, 2], [0, 3]), int32([1], [3])],
  ),
  refuse("a needed entry of -1", /block_tables\[0,0\] must lie in \[0, 2\].*got -1/, [
    query,
    keys,
    values,
    int32([1, 2], [-1, 0]),
    int64([1], [1]),
  ]),
  refuse("an entry of one head's table", /block_tables\[0,1,0\] must lie in \[0, 2\].*seq_lens\[0,1\] = 1.*got 7/, [
    zeros(1, 2, 1, 1),
    keys,
    values,
    int32([1, 2, 1], [0, 7]),
    int32([1, 2], [1, 1]),
  ]),
  refuse("a length past the table", /seq_lens\[0\] must be at most the 4 rows of its table, 2 blocks of 2, got 5/, [
    query,
    keys,
    values,
    table,
    int32([1], [5]),
  ]),
  refuse("a negative length", /seq_lens\[0\] must not be negative, got -1/, [
    query,
    keys,
    values,
    table,
    int32([1], [-1]),
  ]),
  refuse("bytes without scales", /caches of int8 need key_scale/, [
    query,
    of("int8", [1, 1, 1, 1], [0]),
    of("int8", [1, 1, 1, 1], [0]),
    int32([1, 1], [0]),
    int32([1], [1]),
  ]),
  refuse("scales beside floats", /key_scale goes with caches of int8, float8e4m3fn, float8e5m2; these are float32/, [
    query,
    keys,
    values,
    table,
    int32([1], [1]),
    zeros(3, 2, 1),
    zeros(3, 2, 1),
  ]),
  refuse("scales of another pool", /key_scale must be \[num_blocks, block_size, heads\].*got 2 and 3/, [
    query,
    of("int8", [3, 1, 1, 1], [0, 0, 0]),
    of("int8", [3, 1, 1, 1], [0, 0, 0]),
    int32([1, 1], [0]),
    int32([1], [1]),
    zeros(2, 1, 1),
    zeros(3, 1, 1),
  ]),
  refuse("caches of another float", /must have the type of query, float32, or be int8.*got float16/, [
    query,
    of("float16", [1, 1, 1, 1], [0]),
    of("float16", [1, 1, 1, 1], [0]),
    int32([1, 1], [0]),
    int32([1], [1]),
  ]),
  refuse("head sizes", /same head size, got 2 and 1/, [zeros(1, 1, 1, 2), keys, values, table, int32([1], [1])]),
  refuse("heads that share unevenly", /multiple of that of the caches, got 3 and 2/, [
    zeros(1, 3, 1, 1),
    zeros(1, 1, 2, 1),
    zeros(1, 1, 2, 1),
    int32([1, 1], [0]),
    int32([1], [1]),
  ]),
  refuse("tables for another batch", /must agree in the batch, got 1 and 2/, [
    query,
    keys,
    values,
    int32([2, 1], [0, 0]),
    int32([1], [1]),
  ]),
  refuse("tables for each head over pages of several", /a page must hold one head, got 2 and 1/, [
    zeros(1, 2, 1, 1),
    zeros(1, 1, 2, 1),
    zeros(1, 1, 2, 1),
    int32([1, 2, 1], [0, 0]),
    int32([1], [1]),
  ]),
  refuse("packed queries without their heads", /query of 3 dimensions needs the attribute q_num_heads/, [
    zeros(1, 1, 1),
    keys,
    values,
    table,
    int32([1], [1]),
  ]),
  refuse(
    "a window below -1",
    /left_window_size must be -1 or not negative, got -2/,
    [query, keys, values, table, int32([1], [1])],
    {
      left_window_size: -2,
    },
  ),
];

export const cases: readonly OpCase[] = [...results, ...refusals];
