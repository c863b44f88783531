import { of, type OpCase } from "./shared/case.js";

const x = of("float32", [1, 4, 1], [1, 3, 2, -2]);

export const cases: readonly OpCase[] = [
  {
    op: "GroupNormalization",
    opset: 18,
    shows: "scale and bias by group",
    attrs: { num_groups: 2, epsilon: { float: 0 } },
    inputs: [x, of("float32", [2], [1, 10]), of("float32", [2], [0, 1])],
    outputs: [of("float32", [1, 4, 1], [-1, 1, 11, -9])],
  },
  {
    op: "GroupNormalization",
    opset: 21,
    shows: "scale and bias by channel",
    attrs: { num_groups: 2, epsilon: { float: 0 } },
    inputs: [x, of("float32", [4], [1, 2, 3, 4]), of("float32", [4], [0, 0, 0, 1])],
    outputs: [of("float32", [1, 4, 1], [-1, 2, 3, -3])],
  },
  {
    op: "GroupNormalization",
    opset: 21,
    shows: "groups that do not divide the channels are refused",
    attrs: { num_groups: 3 },
    inputs: [x, of("float32", [4], [1, 1, 1, 1]), of("float32", [4], [0, 0, 0, 0])],
    throws: /num_groups must divide the 4 channels, got 3/,
  },
  {
    op: "InstanceNormalization",
    opset: 6,
    shows: "each channel by itself",
    attrs: { epsilon: { float: 0 } },
    inputs: [of("float64", [1, 2, 2], [1, 3, 2, -2]), of("float64", [2], [1, 10]), of("float64", [2], [0, 5])],
    outputs: [of("float64", [1, 2, 2], [-1, 1, 15, -5])],
  },
];
