import { of, type OpCase } from "./shared/case.js";

const list = (...values: number[]) => of("int64", [values.length], values);

export const cases: readonly OpCase[] = [
  {
    op: "Unique",
    opset: 11,
    shows: "sorted, of the flattened tensor; NaNs are one and come last",
    inputs: [of("float32", [2, 3], [3, NaN, 1, 3, 1, NaN])],
    outputs: [of("float32", [3], [1, 3, NaN]), list(2, 0, 1), list(1, 2, 0, 1, 0, 2), list(2, 2, 2)],
  },
  {
    op: "Unique",
    opset: 11,
    shows: "in the order they come, strings",
    attrs: { sorted: 0 },
    inputs: [of("string", [4], ["b", "a", "b", ""])],
    outputs: [of("string", [3], ["b", "a", ""]), list(0, 1, 3), list(0, 1, 0, 2), list(2, 1, 1)],
  },
  {
    op: "Unique",
    opset: 11,
    shows: "strings sort by code points",
    inputs: [of("string", [2], ["\u{1f600}", "\uff00"])],
    outputs: [of("string", [2], ["\uff00", "\u{1f600}"])],
  },
  {
    op: "Unique",
    opset: 11,
    shows: "slices along the last axis",
    attrs: { axis: -1 },
    inputs: [of("int32", [2, 3], [2, 1, 2, 0, 5, 0])],
    outputs: [of("int32", [2, 2], [1, 2, 5, 0]), undefined, list(1, 0, 1), list(1, 2)],
  },
  {
    op: "Unique",
    opset: 11,
    shows: "64 bits stay apart",
    inputs: [of("uint64", [2], [18446744073709551615n, 18446744073709551614n])],
    outputs: [of("uint64", [2], [18446744073709551614n, 18446744073709551615n])],
  },
  {
    op: "Unique",
    opset: 11,
    shows: "an empty tensor",
    inputs: [of("int8", [0], [])],
    outputs: [of("int8", [0], []), list(), list(), list()],
  },
  {
    op: "Unique",
    opset: 11,
    shows: "an axis past the rank is refused",
    attrs: { axis: 1 },
    inputs: [of("int8", [1], [1])],
    throws: /axis must lie in \[-1, 0\]/,
  },
];
