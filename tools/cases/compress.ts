import { of, type OpCase } from "./shared/case.js";

const words = of("string", [2, 2], ["a", "b", "c", "d"]);

export const cases: readonly OpCase[] = [
  {
    op: "Compress",
    opset: 9,
    shows: "elements of the flattened tensor, a short condition",
    inputs: [words, of("bool", [3], [0, 1, 1])],
    outputs: [of("string", [2], ["b", "c"])],
  },
  {
    op: "Compress",
    opset: 28,
    shows: "slices along an axis",
    attrs: { axis: -1 },
    inputs: [words, of("bool", [2], [0, 1])],
    outputs: [of("string", [2, 1], ["b", "d"])],
  },
  {
    op: "Compress",
    opset: 11,
    shows: "nothing picked",
    attrs: { axis: 0 },
    inputs: [words, of("bool", [0], [])],
    outputs: [of("string", [0, 2], [])],
  },
  {
    op: "Compress",
    opset: 11,
    shows: "a true beyond the end is refused",
    attrs: { axis: 0 },
    inputs: [words, of("bool", [3], [0, 0, 1])],
    throws: /condition\[2\] is true, but there are only 2 slices/,
  },
  {
    op: "Compress",
    opset: 11,
    shows: "a condition of two dimensions is refused",
    inputs: [words, of("bool", [1, 1], [1])],
    throws: /condition must have 1 dimension, got bool\[1,1\]/,
  },
];
