import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "MeanVarianceNormalization",
    opset: 13,
    shows: "over given axes; a constant row gives zeros",
    attrs: { axes: [0] },
    inputs: [of("float32", [2, 2], [1, 5, 3, 5])],
    outputs: [of("float32", [2, 2], [-1, 0, 1, 0])],
    tolerance: 1e-6,
  },
  {
    op: "MeanVarianceNormalization",
    opset: 9,
    shows: "the default axes need 4 dimensions",
    inputs: [of("float32", [2], [1, 2])],
    throws: /axes must lie in \[-1, 0\] for rank 1, got 2/,
  },
];
