import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

const repack = (given: Omit<OpCase, "op" | "domain" | "opset">): OpCase => ({
  op: "RepackCache",
  domain: "insitu",
  opset: 1,
  ...given,
});

const int32 = (shape: readonly number[], values: readonly number[]): View => of("int32", shape, values);
const int64 = (shape: readonly number[], values: readonly number[]): View => of("int64", shape, values);

const linear = int32([1, 4, 1], [1, 2, 3, 4]);
const pages = int32([2, 2, 1, 1], [1, 2, 3, 4]);

export const cases: readonly OpCase[] = [
  repack({
    shows: "surviving rows move together; what is behind them stays",
    inputs: [linear, int64([1, 2], [1, 3])],
    outputs: [int32([1, 4, 1], [2, 4, 3, 4])],
  }),
  repack({
    shows: "every row is what its source was before: a rotation, and one row named twice",
    inputs: [int32([2, 4, 1], [1, 2, 3, 4, 5, 6, 7, 8]), int64([2, 4], [1, 2, 3, 0, 3, 0, 0, -1])],
    outputs: [int32([2, 4, 1], [2, 3, 4, 1, 8, 5, 5, 8])],
  }),
  repack({
    shows: "rows for each head",
    inputs: [int32([1, 2, 3, 1], [1, 2, 3, 4, 5, 6]), int64([1, 2, 2], [2, 1, -1, 0])],
    outputs: [int32([1, 2, 3, 1], [3, 2, 3, 4, 4, 6])],
  }),
  repack({
    shows: "along another axis",
    attrs: { axis: 1 },
    inputs: [of("string", [1, 3, 1, 2], ["a", "b", "c", "d", "e", "f"]), int64([1, 2], [2, 0])],
    outputs: [of("string", [1, 3, 1, 2], ["e", "f", "a", "b", "e", "f"])],
  }),
  repack({
    shows: "rows that begin in the middle of a byte",
    inputs: [of("int4", [1, 3, 3], [1, 2, 3, 4, 5, 6, 7, -8, -1]), int64([1, 2], [1, 2])],
    outputs: [of("int4", [1, 3, 3], [4, 5, 6, 7, -8, -1, 7, -8, -1])],
  }),
  repack({
    shows: "pages: rows are counted through the table",
    inputs: [pages, int64([1, 2], [3, 0]), int32([1, 2], [1, 0])],
    outputs: [int32([2, 2, 1, 1], [1, 2, 2, 3])],
  }),
  repack({
    shows: "scales [num_blocks, block_size, heads] move as their pages do, each head its own",
    inputs: [int32([1, 2, 2], [1, 2, 3, 4]), int64([1, 2, 1], [1, -1]), int32([1, 1], [0])],
    outputs: [int32([1, 2, 2], [3, 2, 3, 4])],
  }),
  repack({
    shows: "NHSD",
    attrs: { cache_mode: "NHSD" },
    inputs: [int32([1, 2, 2, 1], [1, 2, 3, 4]), int64([1, 1], [1]), int32([1, 1], [0])],
    outputs: [int32([1, 2, 2, 1], [2, 2, 4, 4])],
  }),
  repack({
    shows: "PA_NZ: the pieces of one head",
    attrs: { cache_mode: "PA_NZ" },
    inputs: [
      int32(
        [1, 2, 2, 8],
        Array.from({ length: 32 }, (_, i) => i),
      ),
      int64([1, 2, 1], [-1, 1]),
      int32([1, 1], [0]),
    ],
    outputs: [
      int32(
        [1, 2, 2, 8],
        [...Array.from({ length: 16 }, (_, i) => i), ...Array.from({ length: 16 }, (_, i) => 24 + (i % 8))],
      ),
    ],
  }),
  repack({
    shows: "a block that two samples share may be read",
    inputs: [pages, int64([2, 2], [-1, -1, 2, -1]), int32([2, 2], [0, -1, 1, 0])],
    outputs: [int32([2, 2, 1, 1], [1, 2, 1, 4])],
  }),
  repack({
    shows: "a block that two samples share must not be written",
    inputs: [pages, int64([2, 2], [1, -1, -1, -1]), int32([2, 2], [0, -1, 1, 0])],
    throws: /block 0 is written and must stand in the tables once, got block_tables\[0,0\] and block_tables\[1,1\]/,
  }),
  repack({
    shows: "a source past the cache is refused",
    inputs: [linear, int64([1, 2], [1, 4])],
    throws: /rows\[0,1\] must be -1, to leave the row as it is, or lie in \[0, 3\], got 4/,
  }),
  repack({
    shows: "a table entry outside the pool is refused",
    inputs: [pages, int64([1, 1], [2]), int32([1, 2], [1, 2])],
    throws: /block_tables\[0,1\] must lie in \[0, 1\], the blocks of the pool, since rows\[0,0\] needs row 2; got 2/,
  }),
  repack({
    shows: "more rows than the cache holds are refused",
    inputs: [linear, int64([1, 5], [0, 1, 2, 3, 0])],
    throws: /rows names 5 rows of a sample, the cache holds 4/,
  }),
  repack({
    shows: "rows for another batch are refused",
    inputs: [linear, int64([2, 1], [0, 0])],
    throws: /one list a sample of the cache, got 2 and 1/,
  }),
  repack({
    shows: "rows for each head of a cache without heads are refused",
    inputs: [linear, int64([1, 1, 1], [0])],
    throws: /need a cache with its heads as dimension 1, before the axis/,
  }),
  repack({
    shows: "axis 0 is refused",
    attrs: { axis: 0 },
    inputs: [linear, int64([1, 1], [0])],
    throws: /axis must not be 0/,
  }),
];
