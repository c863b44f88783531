import { of, type OpCase } from "./shared/case.js";

const boxes = of("float32", [1, 3, 4], [0, 0, 2, 2, 2, 2, 0, 0, 5, 5, 6, 6]);
const scores = of("float32", [1, 1, 3], [0.5, 0.9, 0.1]);

export const cases: readonly OpCase[] = [
  {
    op: "NonMaxSuppression",
    opset: 11,
    shows: "of two that are one the better, corners in any order",
    inputs: [boxes, scores, of("int64", [1], [9]), of("float32", [1], [0.5])],
    outputs: [of("int64", [2, 3], [0, 0, 1, 0, 0, 2])],
  },
  {
    op: "NonMaxSuppression",
    opset: 10,
    shows: "none are wanted where nobody says how many",
    inputs: [boxes, scores],
    outputs: [of("int64", [0, 3], [])],
  },
  {
    op: "NonMaxSuppression",
    opset: 11,
    shows: "scores of other boxes",
    inputs: [boxes, of("float32", [1, 1, 2], [1, 1])],
    throws: /scores must have one for each box, got 3 and 2/,
  },
];
