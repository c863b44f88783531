import { of, type OpCase } from "./shared/case.js";

const x = of("uint8", [1, 1, 3], [2, 3, 4]);
const scalar = (value: number) => of("float32", [], [value]);

export const cases: readonly OpCase[] = [
  {
    op: "ConvInteger",
    opset: 10,
    shows: "padding is zero after the zero point is taken away",
    attrs: { pads: [1, 0] },
    inputs: [x, of("uint8", [1, 1, 2], [1, 2]), of("uint8", [], [1])],
    outputs: [of("int32", [1, 1, 3], [2, 5, 8])],
  },
  {
    op: "ConvInteger",
    opset: 10,
    shows: "a zero point a map",
    inputs: [x, of("int8", [2, 1, 1], [1, 2]), undefined, of("int8", [2], [0, 1])],
    outputs: [of("int32", [1, 2, 3], [2, 3, 4, 2, 3, 4])],
  },
  {
    op: "QLinearConv",
    opset: 10,
    shows: "a scale a map, a bias, rounding to even and saturation",
    inputs: [
      x,
      scalar(0.5),
      of("uint8", [], [0]),
      of("int8", [2, 1, 1], [1, 1]),
      of("float32", [2], [1, 100]),
      of("int8", [2], [0, 0]),
      scalar(1),
      of("uint8", [], [1]),
      of("int32", [2], [1, 0]),
    ],
    outputs: [of("uint8", [1, 2, 3], [3, 3, 3, 101, 151, 201])],
  },
  {
    op: "QLinearConv",
    opset: 10,
    shows: "a scale of x must be one number",
    inputs: [
      x,
      of("float32", [2], [1, 1]),
      of("uint8", [], [0]),
      of("int8", [1, 1, 1], [1]),
      scalar(1),
      of("int8", [], [0]),
      scalar(1),
      of("uint8", [], [1]),
    ],
    throws: /x_scale must be one number, got \[2\]/,
  },
];
