import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

const domain = "com.microsoft";
const float32 = (shape: readonly number[], values: readonly number[]): View => of("float32", shape, values);

export const cases: readonly OpCase[] = [
  {
    op: "LinearAttentionGate",
    domain,
    opset: 1,
    shows: "decays and rates for two heads; large values neither overflow nor vanish",
    inputs: [
      float32([1, 2, 2], [0, 1000, -1000, 0]),
      float32([2], [0, 0]),
      float32([2], [-1, -2]),
      float32([1, 2, 2], [0, 100, -100, 0]),
    ],
    outputs: [float32([1, 2, 2], [-Math.LN2, -2000, 0, -2 * Math.LN2]), float32([1, 2, 2], [0.5, 1, 0, 0.5])],
    tolerance: 1e-6,
  },
  {
    op: "LinearAttentionGate",
    domain,
    opset: 1,
    shows: "a bias for other heads",
    inputs: [float32([1, 1, 2], [0, 0]), float32([3], [0, 0, 0]), float32([2], [1, 1])],
    throws: /dt_bias must have one entry for each head, the last dimension of a, got 3 and 2/,
  },
  {
    op: "GatedRMSNorm",
    domain,
    opset: 1,
    shows: "two groups of two in a row, each with a mean of its own",
    attrs: { epsilon: { float: 0 } },
    inputs: [
      float32([1, 4], [3, 4, 6, 8]),
      float32([2], [Math.sqrt(12.5), 2 * Math.sqrt(12.5)]),
      float32([1, 4], [1, 1, 1, 0]),
    ],
    outputs: [float32([1, 4], [3 / (1 + 1 / Math.E), 8 / (1 + 1 / Math.E), 3 / (1 + 1 / Math.E), 0])],
    tolerance: 1e-6,
  },
  {
    op: "GatedRMSNorm",
    domain,
    opset: 1,
    shows: "groups that do not divide a row",
    inputs: [float32([1, 4], [0, 0, 0, 0]), float32([3], [1, 1, 1]), float32([1, 4], [0, 0, 0, 0])],
    throws: /the last dimension of X must be a multiple of the 3 entries of scale, got 4/,
  },
  {
    op: "GatedAdd",
    domain,
    opset: 1,
    shows: "a gate for each row",
    inputs: [float32([2, 2], [1, 2, 3, 4]), float32([2, 2], [10, 20, 30, 40]), float32([2, 1], [0.5, -1])],
    outputs: [float32([2, 2], [6, 12, -27, -36])],
  },
  {
    op: "GatedAdd",
    domain,
    opset: 1,
    shows: "a gate for each element",
    inputs: [float32([2, 2], [1, 2, 3, 4]), float32([2, 2], [1, 2, 3, 4]), float32([2, 2], [1, 2, 3, 4])],
    throws: /gate must have the shape of X's rows, \[2,1\], got \[2,2\]/,
  },
];
