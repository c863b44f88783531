import { of, type OpCase } from "./shared/case.js";

const matrix = of("float32", [2, 2], [1, 2, 3, 4]);

export const cases: readonly OpCase[] = [
  {
    op: "Einsum",
    opset: 12,
    shows: "the implicit output sorts its indices",
    attrs: { equation: "ba" },
    inputs: [of("int8", [1, 2], [1, 2])],
    outputs: [of("int8", [2, 1], [1, 2])],
  },
  {
    op: "Einsum",
    opset: 12,
    shows: "a trace, with spaces",
    attrs: { equation: " i i -> " },
    inputs: [matrix],
    outputs: [of("float32", [], [5])],
  },
  {
    op: "Einsum",
    opset: 12,
    shows: "a product of matrices in a batch",
    attrs: { equation: "...ij,...jk->...ik" },
    inputs: [of("float64", [2, 1, 2], [1, 2, 3, 4]), of("float64", [1, 2, 1], [1, 10])],
    outputs: [of("float64", [2, 1, 1], [21, 43])],
  },
  {
    op: "Einsum",
    opset: 12,
    shows: "three operands, 64-bit integers exact",
    attrs: { equation: "i,ij,j->" },
    inputs: [of("int64", [2], [1n, 1n]), of("int64", [2, 1], [9007199254740993n, 0n]), of("int64", [1], [1n])],
    outputs: [of("int64", [], [9007199254740993n])],
  },
  {
    op: "Einsum",
    opset: 12,
    shows: "small integers wrap",
    attrs: { equation: "i,i->" },
    inputs: [of("uint8", [2], [255, 255]), of("uint8", [2], [255, 1])],
    outputs: [of("uint8", [], [0])],
  },
  {
    op: "Einsum",
    opset: 12,
    shows: "a size of 1 stretches",
    attrs: { equation: "ij,ij->ij" },
    inputs: [matrix, of("float32", [1, 2], [10, 100])],
    outputs: [of("float32", [2, 2], [10, 200, 30, 400])],
  },
  {
    op: "Einsum",
    opset: 12,
    shows: "sizes that differ are refused",
    attrs: { equation: "i,i" },
    inputs: [of("float32", [2], [1, 2]), of("float32", [3], [1, 2, 3])],
    throws: /index "i" must have one size, got 2 and 3/,
  },
  {
    op: "Einsum",
    opset: 12,
    shows: "an output index that no input has is refused",
    attrs: { equation: "ij->k" },
    inputs: [matrix],
    throws: /no input has the output's index "k"/,
  },
  {
    op: "Einsum",
    opset: 12,
    shows: "a term that does not fit the rank is refused",
    attrs: { equation: "ijk->i" },
    inputs: [matrix],
    throws: /input 0 has 2 dimensions, its term "ijk" names 3/,
  },
];
