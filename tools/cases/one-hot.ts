import { of, type OpCase } from "./shared/case.js";

const values = of("int8", [2], [0, 1]);
const three = of("int64", [], [3]);

export const cases: readonly OpCase[] = [
  {
    op: "OneHot",
    opset: 11,
    shows: "negative indices count from the back, those outside switch nothing on",
    inputs: [of("int64", [4], [0, -1, 3, -4]), three, values],
    outputs: [of("int8", [4, 3], [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0])],
  },
  {
    op: "OneHot",
    opset: 28,
    shows: "places on the first axis, indices and depth as floats, strings as values",
    attrs: { axis: 0 },
    inputs: [of("float32", [2], [1.5, 0]), of("float16", [1], [2]), of("string", [2], ["-", "x"])],
    outputs: [of("string", [2, 2], ["-", "x", "x", "-"])],
  },
  {
    op: "OneHot",
    opset: 11,
    shows: "one value is refused",
    inputs: [of("int64", [1], [0]), three, of("int8", [1], [0])],
    throws: /values must hold the off value and the on value, got int8\[1\]/,
  },
  {
    op: "OneHot",
    opset: 11,
    shows: "a negative depth is refused",
    inputs: [of("int64", [1], [0]), of("int64", [], [-3]), values],
    throws: /depth must be a number of classes, got -3/,
  },
  {
    op: "OneHot",
    opset: 11,
    shows: "an axis past the new rank is refused",
    attrs: { axis: 2 },
    inputs: [of("int64", [1], [0]), three, values],
    throws: /axis must lie in \[-2, 1\]/,
  },
];
