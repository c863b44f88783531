import { of, type OpCase } from "./shared/case.js";

const domain = "insitu";
const op = "DequantizeMatMul";
const a = of("float32", [2, 2], [1, 2, 3, 4]);

export const cases: readonly OpCase[] = [
  {
    op,
    domain,
    opset: 1,
    shows: "a scale and a zero point for each column, and a bias",
    inputs: [
      a,
      of("uint8", [2, 2], [129, 3, 127, 5]),
      of("float32", [2], [0.5, 2]),
      of("uint8", [2], [128, 4]),
      of("float32", [2], [10, 20]),
    ],
    outputs: [of("float32", [2, 2], [9.5, 22, 9.5, 22])],
  },
  {
    op,
    domain,
    opset: 1,
    attrs: { axis: 0, block_size: 1 },
    shows: "a scale for each block of rows and column",
    inputs: [a, of("int4", [2, 2], [1, -8, 7, -1]), of("float32", [2, 2], [1, 0.5, 2, 4])],
    outputs: [of("float32", [2, 2], [29, -12, 59, -28])],
  },
  {
    op,
    domain,
    opset: 1,
    shows: "one scale for all",
    inputs: [of("float32", [1, 2], [1, 1]), of("int8", [2, 1], [-128, 127]), of("float32", [], [2])],
    outputs: [of("float32", [1, 1], [-2])],
  },
  {
    op,
    domain,
    opset: 1,
    shows: "scales that fit no axis are refused",
    inputs: [a, of("int8", [2, 2], [1, 2, 3, 4]), of("float32", [3], [1, 2, 3])],
    throws: /the scale must have the length of axis 1/,
  },
];
