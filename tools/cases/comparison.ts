import { of, type OpCase } from "./shared/case.js";

const a = of("float32", [4], [1, 2, 3, NaN]);
const b = of("float32", [4], [2, 2, 2, NaN]);
const compared = (op: string, opset: number, c: readonly number[]): OpCase => ({
  op,
  opset,
  shows: "less, equal, greater, and NaN that is none of these",
  inputs: [a, b],
  outputs: [of("bool", [4], c)],
});

export const cases: readonly OpCase[] = [
  compared("Equal", 13, [0, 1, 0, 0]),
  compared("Greater", 13, [0, 0, 1, 0]),
  compared("GreaterOrEqual", 16, [0, 1, 1, 0]),
  compared("Less", 7, [1, 0, 0, 0]),
  compared("LessOrEqual", 12, [1, 1, 0, 0]),
  {
    op: "Equal",
    opset: 19,
    shows: "strings",
    inputs: [of("string", [2, 1], ["a", "b"]), of("string", [2], ["b", "a"])],
    outputs: [of("bool", [2, 2], [0, 1, 1, 0])],
  },
  {
    op: "Less",
    opset: 13,
    shows: "64-bit integers past 2^53 differ by one",
    inputs: [of("int64", [], [9007199254740992n]), of("int64", [1], [9007199254740993n])],
    outputs: [of("bool", [1], [1])],
  },
  {
    op: "Greater",
    opset: 13,
    shows: "strings have no order",
    inputs: [of("string", [1], ["a"]), of("string", [1], ["b"])],
    throws: /A must be one of/,
  },
];
