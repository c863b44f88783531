import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "Pow",
    opset: 15,
    shows: "the result has the type of the base",
    inputs: [of("int32", [4], [4, 5, 2, -2]), of("float32", [4], [0.5, 0.5, -1, 3])],
    outputs: [of("int32", [4], [2, 2, 0, -8])],
  },
  {
    op: "Pow",
    opset: 12,
    shows: "64-bit integers are exact and wrap",
    inputs: [of("int64", [3], [3n, 2n, -1n]), of("int64", [3], [39n, 63n, -3n])],
    outputs: [of("int64", [3], [4052555153018976267n, -(2n ** 63n), -1n])],
  },
  {
    op: "Pow",
    opset: 15,
    shows: "float base, integer exponent, broadcast",
    inputs: [of("float32", [2, 1], [2, -3]), of("int64", [2], [2n, -1n])],
    outputs: [of("float32", [2, 2], [4, 0.5, 9, -1 / 3])],
    tolerance: 1e-7,
  },
  {
    op: "Pow",
    opset: 7,
    shows: "1 to anything is 1",
    inputs: [of("float32", [3], [1, -1, 1]), of("float32", [3], [NaN, Infinity, -Infinity])],
    outputs: [of("float32", [3], [1, 1, 1])],
  },
];
