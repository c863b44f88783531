import { of, type OpCase } from "./shared/case.js";

const matrix = of("float32", [3, 2], [1, 2, 3, 4, 5, 6]);
const words = of("string", [2, 2], ["a", "b", "c", "d"]);

export const cases: readonly OpCase[] = [
  {
    op: "Gather",
    opset: 13,
    shows: "indices of two dimensions, one from the back",
    inputs: [matrix, of("int32", [1, 2], [0, -1])],
    outputs: [of("float32", [1, 2, 2], [1, 2, 5, 6])],
  },
  {
    op: "Gather",
    opset: 11,
    shows: "a scalar index takes its axis away",
    attrs: { axis: 1 },
    inputs: [words, of("int64", [], [1])],
    outputs: [of("string", [2], ["b", "d"])],
  },
  {
    op: "Gather",
    opset: 13,
    shows: "an index past the end is refused with its place",
    inputs: [matrix, of("int64", [1, 2], [0, 3])],
    throws: /indices\[0,1\] must lie in \[-3, 2\], got 3/,
  },
  {
    op: "Gather",
    opset: 13,
    shows: "an index into an empty dimension is refused",
    inputs: [of("float32", [0, 2], []), of("int64", [1], [0])],
    throws: /indices\[0\] must point into a dimension that has elements, got 0/,
  },
  {
    op: "Gather",
    opset: 13,
    shows: "64-bit integers stay exact",
    inputs: [of("uint64", [2], [18446744073709551615n, 1]), of("int64", [1], [-2])],
    outputs: [of("uint64", [1], [18446744073709551615n])],
  },
  {
    op: "GatherElements",
    opset: 13,
    shows: "each index replaces a coordinate",
    attrs: { axis: 1 },
    inputs: [words, of("int64", [2, 3], [0, 0, -1, 1, 0, 0])],
    outputs: [of("string", [2, 3], ["a", "a", "b", "d", "c", "c"])],
  },
  {
    op: "GatherElements",
    opset: 13,
    shows: "indices may be shorter than data in other dimensions",
    inputs: [matrix, of("int64", [2, 1], [2, 1])],
    outputs: [of("float32", [2, 1], [5, 3])],
  },
  {
    op: "GatherElements",
    opset: 13,
    shows: "indices longer than data in another dimension are refused",
    inputs: [matrix, of("int64", [1, 3], [0, 0, 0])],
    throws: /indices \[1,3\] must not exceed data \[3,2\] in dimension 1/,
  },
  {
    op: "GatherND",
    opset: 12,
    shows: "a batch dimension goes along",
    attrs: { batch_dims: 1 },
    inputs: [of("int32", [2, 2, 2], [0, 1, 2, 3, 4, 5, 6, 7]), of("int64", [2, 1], [1, -2])],
    outputs: [of("int32", [2, 2], [2, 3, 4, 5])],
  },
  {
    op: "GatherND",
    opset: 13,
    shows: "rows as long as the rank pick elements",
    inputs: [words, of("int64", [2, 2], [0, 0, -1, 1])],
    outputs: [of("string", [2], ["a", "d"])],
  },
  {
    op: "GatherND",
    opset: 13,
    shows: "each index is held against its own dimension",
    inputs: [matrix, of("int64", [1, 2], [2, 2])],
    throws: /indices\[0,1\] must lie in \[-2, 1\], got 2/,
  },
  {
    op: "GatherND",
    opset: 13,
    shows: "rows longer than the rank are refused",
    inputs: [matrix, of("int64", [1, 3], [0, 0, 0])],
    throws: /the last dimension of indices must lie in \[1, 2\], got 3/,
  },
];
