import { of, type OpCase } from "./shared/case.js";

const line = of("float32", [4], [0, 10, 20, 30]);
const square = of("float32", [1, 1, 2, 2], [1, 2, 3, 4]);

export const cases: readonly OpCase[] = [
  {
    op: "Resize",
    opset: 19,
    shows: "linear between the middles of elements",
    attrs: { mode: "linear" },
    inputs: [of("float32", [2], [0, 10]), undefined, of("float32", [1], [2])],
    outputs: [of("float32", [4], [0, 2.5, 7.5, 10])],
  },
  {
    op: "Resize",
    opset: 13,
    shows: "sizes, corners on corners, integers cut off",
    attrs: { mode: "linear", coordinate_transformation_mode: "align_corners" },
    inputs: [of("int32", [2], [0, 5]), undefined, undefined, of("int64", [1], [4n])],
    outputs: [of("int32", [4], [0, 1, 3, 5])],
  },
  {
    op: "Resize",
    opset: 18,
    shows: "proportions are kept along the axes that are named",
    attrs: { axes: [3, 2], keep_aspect_ratio_policy: "not_larger" },
    inputs: [square, undefined, undefined, of("int64", [2], [4n, 3n])],
    outputs: [of("float32", [1, 1, 3, 3], [1, 1, 2, 1, 1, 2, 3, 3, 4])],
  },
  {
    op: "Resize",
    opset: 18,
    shows: "a wider filter where the axis shrinks",
    attrs: { mode: "linear", antialias: 1 },
    inputs: [line, undefined, of("float32", [1], [0.5])],
    outputs: [of("float32", [2], [6.25, 23.75])],
  },
  {
    op: "Resize",
    opset: 11,
    shows: "a region that reaches outside of the input",
    attrs: {
      mode: "linear",
      coordinate_transformation_mode: "tf_crop_and_resize",
      extrapolation_value: { float: -1.5 },
    },
    inputs: [line, of("float32", [2], [0.5, 1.5]), undefined, of("int64", [1], [3n])],
    outputs: [of("float32", [3], [15, 30, -1.5])],
  },
  {
    op: "Resize",
    opset: 10,
    shows: "before opset 11 the nearest element is the one in front",
    inputs: [of("bool", [2], [1, 0]), of("float32", [1], [2])],
    outputs: [of("bool", [4], [1, 1, 0, 0])],
  },
  {
    op: "Upsample",
    opset: 7,
    shows: "scales as an attribute",
    attrs: { scales: { floats: [1, 2] } },
    inputs: [of("int64", [1, 2], [7n, 9n])],
    outputs: [of("int64", [1, 4], [7n, 7n, 9n, 9n])],
  },
  {
    op: "Upsample",
    opset: 9,
    shows: "scales as an operand",
    attrs: { mode: "linear" },
    inputs: [of("float32", [2], [0, 10]), of("float32", [1], [2])],
    outputs: [of("float32", [4], [0, 5, 10, 10])],
  },
  {
    op: "Resize",
    opset: 19,
    shows: "neither scales nor sizes is refused",
    inputs: [line],
    throws: /one of scales and sizes must be given, got none/,
  },
  {
    op: "Resize",
    opset: 19,
    shows: "a scale of 0 is refused",
    inputs: [line, undefined, of("float32", [1], [0])],
    throws: /scales must be greater than 0, got \[0\]/,
  },
  {
    op: "Resize",
    opset: 19,
    shows: "too few scales are refused",
    inputs: [square, undefined, of("float32", [2], [2, 2])],
    throws: /scales needs 4 entries, got 2/,
  },
  {
    op: "Resize",
    opset: 19,
    shows: "text is not interpolated",
    attrs: { mode: "linear" },
    inputs: [of("string", [1], ["a"]), undefined, of("float32", [1], [2])],
    throws: /mode "linear" computes with numbers, got string/,
  },
];
