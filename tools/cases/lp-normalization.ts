import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "LpNormalization",
    opset: 22,
    shows: "L2 along an axis, a zero row stays zero",
    attrs: { axis: 0 },
    inputs: [of("float32", [2, 2], [3, 0, 4, 0])],
    outputs: [of("float32", [2, 2], [0.6, 0, 0.8, 0])],
    tolerance: 1e-7,
  },
  {
    op: "LpNormalization",
    opset: 1,
    shows: "L1 sums absolute values",
    attrs: { p: 1 },
    inputs: [of("float64", [2], [-1, 3])],
    outputs: [of("float64", [2], [-0.25, 0.75])],
  },
  {
    op: "LpNormalization",
    opset: 22,
    shows: "other norms are refused",
    attrs: { p: 3 },
    inputs: [of("float32", [1], [1])],
    throws: /p must be 1 or 2, got 3/,
  },
];
