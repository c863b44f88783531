import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "NonZero",
    opset: 13,
    shows: "coordinates by dimension; NaN counts, -0 does not",
    inputs: [of("float32", [2, 2], [0, NaN, -0, 2])],
    outputs: [of("int64", [2, 2], [0, 1, 1, 1])],
  },
  {
    op: "NonZero",
    opset: 9,
    shows: "strings that are not empty",
    inputs: [of("string", [3], ["", "a", " "])],
    outputs: [of("int64", [1, 2], [1, 2])],
  },
  {
    op: "NonZero",
    opset: 13,
    shows: "complex numbers by both parts",
    inputs: [of("complex64", [2], [0, 1, 0, 0])],
    outputs: [of("int64", [1, 1], [0])],
  },
  {
    op: "NonZero",
    opset: 13,
    shows: "a scalar has no coordinates",
    inputs: [of("int64", [], [5])],
    outputs: [of("int64", [0, 1], [])],
  },
  {
    op: "NonZero",
    opset: 13,
    shows: "nothing found",
    inputs: [of("bool", [2, 0], [])],
    outputs: [of("int64", [2, 0], [])],
  },
];
