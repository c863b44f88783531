import { of, type OpCase } from "./shared/case.js";

const matrix = of("float32", [2, 3], [1, 3, 3, -2, NaN, -2]);

export const cases: readonly OpCase[] = [
  {
    op: "ArgMax",
    opset: 13,
    shows: "the first of equals",
    attrs: { axis: 1 },
    inputs: [matrix],
    outputs: [of("int64", [2, 1], [1, 1])],
  },
  {
    op: "ArgMax",
    opset: 13,
    shows: "the last of equals, without the axis",
    attrs: { axis: -1, select_last_index: 1, keepdims: 0 },
    inputs: [matrix],
    outputs: [of("int64", [2], [2, 1])],
  },
  {
    op: "ArgMin",
    opset: 11,
    shows: "the smallest along the first axis",
    inputs: [of("uint64", [2, 2], [18446744073709551615n, 0, 18446744073709551614n, 0])],
    outputs: [of("int64", [1, 2], [1, 0])],
  },
  {
    op: "ArgMin",
    opset: 13,
    shows: "a NaN is found first",
    attrs: { axis: 1 },
    inputs: [matrix],
    outputs: [of("int64", [2, 1], [0, 1])],
  },
  {
    op: "ArgMax",
    opset: 13,
    shows: "an empty axis is refused",
    inputs: [of("int8", [0, 2], [])],
    throws: /axis 0 has no elements to choose from/,
  },
  {
    op: "ArgMax",
    opset: 13,
    shows: "no lines at all",
    attrs: { axis: 0 },
    inputs: [of("int8", [2, 0], [])],
    outputs: [of("int64", [1, 0], [])],
  },
];
