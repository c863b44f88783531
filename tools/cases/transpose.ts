import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "Transpose",
    opset: 21,
    shows: "without perm the axes are reversed",
    inputs: [of("int4", [2, 3], [1, 2, 3, -4, -5, -6])],
    outputs: [of("int4", [3, 2], [1, -4, 2, -5, 3, -6])],
  },
  {
    op: "Transpose",
    opset: 1,
    shows: "perm names the axis that comes to each place",
    attrs: { perm: [1, 2, 0] },
    inputs: [of("string", [2, 1, 3], ["a", "b", "c", "d", "e", "f"])],
    outputs: [of("string", [1, 3, 2], ["a", "d", "b", "e", "c", "f"])],
  },
  {
    op: "Transpose",
    opset: 13,
    shows: "complex elements move as pairs",
    inputs: [of("complex64", [1, 2], [1, 2, 3, 4])],
    outputs: [of("complex64", [2, 1], [1, 2, 3, 4])],
  },
  {
    op: "Transpose",
    opset: 13,
    shows: "an empty tensor",
    inputs: [of("float32", [2, 0], [])],
    outputs: [of("float32", [0, 2], [])],
  },
  {
    op: "Transpose",
    opset: 13,
    shows: "an axis that comes twice is refused",
    attrs: { perm: [0, 0] },
    inputs: [of("float32", [1, 1], [1])],
    throws: /perm must hold each of the 2 axes from 0 on once, got \[0,0\]/,
  },
];
