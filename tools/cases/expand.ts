import { of, type OpCase } from "./shared/case.js";

const column = of("string", [2, 1], ["a", "b"]);

export const cases: readonly OpCase[] = [
  {
    op: "Expand",
    opset: 13,
    shows: "both sides may broadcast",
    inputs: [column, of("int64", [3], [2, 1, 2])],
    outputs: [of("string", [2, 2, 2], ["a", "a", "b", "b", "a", "a", "b", "b"])],
  },
  {
    op: "Expand",
    opset: 8,
    shows: "a shape shorter than the input's",
    inputs: [column, of("int64", [1], [1])],
    outputs: [column],
  },
  {
    op: "Expand",
    opset: 13,
    shows: "to nothing",
    inputs: [column, of("int64", [2], [2, 0])],
    outputs: [of("string", [2, 0], [])],
  },
  {
    op: "Expand",
    opset: 13,
    shows: "a shape that does not fit is refused",
    inputs: [column, of("int64", [2], [3, 1])],
    throws: /shapes \[2,1\] and \[3,1\] do not broadcast/,
  },
  {
    op: "Expand",
    opset: 13,
    shows: "a negative dimension is refused",
    inputs: [column, of("int64", [2], [2, -1])],
    throws: /shape \[2,-1\] must not have -1/,
  },
  {
    op: "Expand",
    opset: 13,
    shows: "more elements than can be addressed are refused",
    inputs: [of("int8", [1], [1]), of("int64", [2], [4294967296, 4294967296])],
    throws: /more elements than can be addressed/,
  },
];
