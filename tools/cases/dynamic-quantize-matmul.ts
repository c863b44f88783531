import { of, type OpCase } from "./shared/case.js";

const domain = "com.microsoft";

export const cases: readonly OpCase[] = [
  {
    op: "MatMulIntegerToFloat",
    domain,
    opset: 1,
    shows: "zero points a column, scales a column, and a bias",
    inputs: [
      of("uint8", [1, 2], [3, 5]),
      of("int8", [2, 2], [1, -2, 3, 4]),
      of("float32", [], [0.5]),
      of("float32", [2], [1, 2]),
      of("uint8", [], [1]),
      of("int8", [2], [1, 0]),
      of("float32", [2], [10, 20]),
    ],
    outputs: [of("float32", [1, 2], [14, 32])],
  },
  {
    op: "DynamicQuantizeMatMul",
    domain,
    opset: 1,
    shows: "A is rounded to 255 steps of its own range",
    inputs: [of("float32", [1, 2], [-1, 254]), of("int8", [2, 1], [2, 1]), of("float32", [1], [1])],
    outputs: [of("float32", [1, 1], [252])],
  },
  {
    op: "DynamicQuantizeMatMul",
    domain,
    opset: 1,
    shows: "all zeros",
    inputs: [
      of("float32", [1, 1], [0]),
      of("uint8", [1, 1], [7]),
      of("float32", [], [1]),
      undefined,
      of("float32", [1], [3]),
    ],
    outputs: [of("float32", [1, 1], [3])],
  },
  {
    op: "MatMulIntegerToFloat",
    domain,
    opset: 1,
    shows: "a bias of another length is refused",
    inputs: [
      of("uint8", [1, 1], [3]),
      of("uint8", [1, 2], [1, 2]),
      of("float32", [], [1]),
      of("float32", [], [1]),
      undefined,
      undefined,
      of("float32", [1], [1]),
    ],
    throws: /bias must have the length of B's last dimension, got 1 and 2/,
  },
];
