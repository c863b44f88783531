import { of, type OpCase } from "./shared/case.js";

const grid = of("float32", [1, 1, 2, 3], [1, 9, 3, 4, 5, 6]);
const line = of("float32", [1, 1, 3], [1, 2, 3]);

export const cases: readonly OpCase[] = [
  {
    op: "MaxPool",
    opset: 12,
    shows: "values and their places",
    attrs: { kernel_shape: [2, 2] },
    inputs: [grid],
    outputs: [of("float32", [1, 1, 1, 2], [9, 9]), of("int64", [1, 1, 1, 2], [1, 1])],
  },
  {
    op: "MaxPool",
    opset: 12,
    shows: "places in column-major order",
    attrs: { kernel_shape: [2, 1], storage_order: 1 },
    inputs: [grid],
    outputs: [of("float32", [1, 1, 1, 3], [4, 9, 6]), of("int64", [1, 1, 1, 3], [1, 2, 5])],
  },
  {
    op: "MaxPool",
    opset: 12,
    shows: "bytes, with ceil_mode and padding",
    attrs: { kernel_shape: [2], strides: [2], pads: [1, 0], ceil_mode: 1 },
    inputs: [of("int8", [1, 1, 4], [-5, -6, -7, -8])],
    outputs: [of("int8", [1, 1, 3], [-5, -6, -8])],
  },
  {
    op: "AveragePool",
    opset: 19,
    shows: "padding does not count",
    attrs: { kernel_shape: [2], pads: [1, 1] },
    inputs: [line],
    outputs: [of("float32", [1, 1, 4], [1, 1.5, 2.5, 3])],
  },
  {
    op: "AveragePool",
    opset: 19,
    shows: "padding counts if asked to, what lies beyond it does not",
    attrs: { kernel_shape: [2], strides: [2], pads: [1, 1], count_include_pad: 1, ceil_mode: 1 },
    inputs: [of("float32", [1, 1, 2], [4, 8])],
    outputs: [of("float32", [1, 1, 2], [2, 4])],
  },
  {
    op: "LpPool",
    opset: 18,
    shows: "the L2 norm of a window",
    attrs: { kernel_shape: [2] },
    inputs: [of("float32", [1, 1, 2], [3, -4])],
    outputs: [of("float32", [1, 1, 1], [5])],
  },
  {
    op: "GlobalAveragePool",
    opset: 1,
    shows: "the mean of a channel",
    inputs: [grid],
    outputs: [of("float32", [1, 1, 1, 1], [28 / 6])],
    tolerance: 1e-7,
  },
  {
    op: "GlobalMaxPool",
    opset: 22,
    shows: "the greatest of a channel",
    inputs: [grid],
    outputs: [of("float32", [1, 1, 1, 1], [9])],
  },
  {
    op: "GlobalLpPool",
    opset: 2,
    shows: "the L1 norm of a channel",
    attrs: { p: 1 },
    inputs: [line],
    outputs: [of("float32", [1, 1, 1], [6])],
  },
  {
    op: "MaxPool",
    opset: 12,
    shows: "pads together with auto_pad are refused",
    attrs: { kernel_shape: [2], pads: [1, 0], auto_pad: "SAME_UPPER" },
    inputs: [line],
    throws: /pads cannot be given together with auto_pad SAME_UPPER/,
  },
];
