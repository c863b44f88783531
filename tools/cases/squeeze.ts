import { of, type OpCase } from "./shared/case.js";

const column = of("int4", [1, 3, 1], [1, -2, 3]);

export const cases: readonly OpCase[] = [
  {
    op: "Squeeze",
    opset: 25,
    shows: "without axes every 1 goes",
    inputs: [column],
    outputs: [of("int4", [3], [1, -2, 3])],
  },
  {
    op: "Squeeze",
    opset: 25,
    shows: "an axis counted from the back",
    inputs: [column, of("int64", [1], [-1])],
    outputs: [of("int4", [1, 3], [1, -2, 3])],
  },
  {
    op: "Squeeze",
    opset: 11,
    shows: "axes as an attribute",
    attrs: { axes: [0, -1] },
    inputs: [of("bool", [1, 2, 1], [1, 0])],
    outputs: [of("bool", [2], [1, 0])],
  },
  {
    op: "Squeeze",
    opset: 13,
    shows: "a dimension other than 1 is refused",
    inputs: [column, of("int64", [1], [1])],
    throws: /dimension 1 of data \[1,3,1\] must be 1 to be squeezed/,
  },
  {
    op: "Squeeze",
    opset: 13,
    shows: "an axis past the rank is refused",
    inputs: [column, of("int64", [1], [3])],
    throws: /axes must lie in \[-3, 2\] for rank 3, got 3/,
  },
  {
    op: "Unsqueeze",
    opset: 13,
    shows: "axes in any order, counted in the result",
    inputs: [of("float32", [2], [1, 2]), of("int64", [2], [-1, 0])],
    outputs: [of("float32", [1, 2, 1], [1, 2])],
  },
  {
    op: "Unsqueeze",
    opset: 13,
    shows: "one axis alone, as a scalar",
    inputs: [of("float32", [2], [1, 2]), of("int64", [], [1])],
    outputs: [of("float32", [2, 1], [1, 2])],
  },
  {
    op: "Unsqueeze",
    opset: 11,
    shows: "axes as an attribute",
    attrs: { axes: [0] },
    inputs: [of("string", [], ["a"])],
    outputs: [of("string", [1], ["a"])],
  },
  {
    op: "Unsqueeze",
    opset: 13,
    shows: "an axis that comes twice is refused",
    inputs: [of("float32", [2], [1, 2]), of("int64", [2], [0, -3])],
    throws: /axes must differ, got \[0,-3\]/,
  },
  {
    op: "Unsqueeze",
    opset: 11,
    shows: "axes are required",
    inputs: [of("float32", [2], [1, 2])],
    throws: /attribute "axes" is required/,
  },
];
