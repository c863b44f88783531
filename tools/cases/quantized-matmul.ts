import { of, type OpCase } from "./shared/case.js";

const a = of("uint8", [2, 2], [1, 2, 3, 4]);
const b = of("int8", [2, 2], [1, -1, 2, -2]);
const scalar = (value: number) => of("float32", [], [value]);

export const cases: readonly OpCase[] = [
  {
    op: "MatMulInteger",
    opset: 10,
    shows: "zero points by row and by column",
    inputs: [a, b, of("uint8", [2], [1, 3]), of("int8", [2], [1, 0])],
    outputs: [of("int32", [2, 2], [1, -2, 1, -2])],
  },
  {
    op: "MatMulInteger",
    opset: 10,
    shows: "a zero point that fits neither way is refused",
    inputs: [a, b, of("uint8", [3], [1, 2, 3])],
    throws: /a_zero_point must be a scalar or have one entry a row of \[2,2\], got \[3\]/,
  },
  {
    op: "QLinearMatMul",
    opset: 10,
    shows: "rounds ties to even and saturates",
    inputs: [a, scalar(0.5), of("uint8", [], [0]), b, scalar(1), of("int8", [], [0]), scalar(1), of("uint8", [], [1])],
    outputs: [of("uint8", [2, 2], [3, 0, 7, 0])],
  },
  {
    op: "QLinearMatMul",
    opset: 21,
    shows: "float8 with a scale by column",
    inputs: [
      of("float8e4m3fn", [1, 1], [2]),
      scalar(1),
      of("float8e4m3fn", [], [0]),
      of("float8e4m3fn", [1, 2], [3, 3]),
      of("float32", [2], [1, 1000]),
      of("float8e4m3fn", [2], [0, 0]),
      scalar(1),
      of("float8e4m3fn", [], [0]),
    ],
    outputs: [of("float8e4m3fn", [1, 2], [6, 448])],
  },
];
