import { of, type OpCase } from "./shared/case.js";

const matrix = of("bfloat16", [2, 2], [1, 2, 3, 4]);

export const cases: readonly OpCase[] = [
  {
    op: "Tile",
    opset: 13,
    shows: "each axis by its own count",
    inputs: [matrix, of("int64", [2], [1, 2])],
    outputs: [of("bfloat16", [2, 4], [1, 2, 1, 2, 3, 4, 3, 4])],
  },
  {
    op: "Tile",
    opset: 6,
    shows: "no copies at all",
    inputs: [of("string", [1], ["a"]), of("int64", [1], [0])],
    outputs: [of("string", [0], [])],
  },
  {
    op: "Tile",
    opset: 13,
    shows: "repeats of the wrong length are refused",
    inputs: [matrix, of("int64", [1], [2])],
    throws: /repeats needs one entry a dimension of input \[2,2\], got 1/,
  },
  {
    op: "Tile",
    opset: 13,
    shows: "negative repeats are refused",
    inputs: [matrix, of("int64", [2], [1, -1])],
    throws: /repeats must not be negative, got \[1,-1\]/,
  },
];
