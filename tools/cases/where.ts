import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "Where",
    opset: 16,
    shows: "all three are broadcast",
    inputs: [of("bool", [2, 1], [1, 0]), of("int64", [2], [1n, 2n]), of("int64", [], [9n])],
    outputs: [of("int64", [2, 2], [1n, 2n, 9n, 9n])],
  },
  {
    op: "Where",
    opset: 9,
    shows: "strings",
    inputs: [of("bool", [2], [1, 0]), of("string", [2], ["a", "b"]), of("string", [2], ["c", "d"])],
    outputs: [of("string", [2], ["a", "d"])],
  },
  {
    op: "Where",
    opset: 16,
    shows: "complex numbers move whole",
    inputs: [of("bool", [2], [0, 1]), of("complex64", [1], [1, 2]), of("complex64", [2], [3, 4, 5, 6])],
    outputs: [of("complex64", [2], [3, 4, 1, 2])],
  },
  {
    op: "Where",
    opset: 16,
    shows: "X and Y of different types are refused",
    inputs: [of("bool", [1], [1]), of("float32", [1], [1]), of("int32", [1], [1])],
    throws: /Y must have the type of the other operands of T/,
  },
];
