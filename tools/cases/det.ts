import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "Det",
    opset: 11,
    shows: "a batch, one matrix singular, one with a zero pivot",
    inputs: [of("float32", [2, 2, 2], [1, 2, 2, 4, 0, 2, 3, 4])],
    // Rows change places: zero with its sign turned.
    outputs: [of("float32", [2], [-0, -6])],
  },
  {
    op: "Det",
    opset: 22,
    shows: "the empty matrix has determinant 1",
    inputs: [of("float64", [0, 0], [])],
    outputs: [of("float64", [], [1])],
  },
  {
    op: "Det",
    opset: 22,
    shows: "a matrix that is not square is refused",
    inputs: [of("float32", [1, 2], [1, 2])],
    throws: /must be square, got 1 and 2/,
  },
];
