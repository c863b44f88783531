import { of, type OpCase } from "./shared/case.js";

const data = of("float32", [3], [1, -2, NaN]);
const yes = of("bool", [], [1]);
const half = of("float32", [], [0.5]);
const all = of("bool", [3], [1, 1, 1]);

export const cases: readonly OpCase[] = [
  {
    op: "Dropout",
    opset: 22,
    shows: "nothing is dropped when a model is used",
    inputs: [data, half],
    outputs: [data, all],
  },
  {
    op: "Dropout",
    opset: 13,
    shows: "nothing is dropped by a ratio of 0",
    inputs: [data, of("float64", [], [0]), yes],
    outputs: [data, all],
  },
  {
    op: "Dropout",
    opset: 12,
    shows: "chance takes from nothing",
    attrs: { seed: 1 },
    inputs: [of("float16", [2], [0, 0]), half, yes],
    outputs: [of("float16", [2], [0, 0])],
  },
  {
    op: "Dropout",
    opset: 7,
    shows: "a mask of the operand's type",
    inputs: [data],
    outputs: [data, of("float32", [3], [1, 1, 1])],
  },
  {
    op: "Dropout",
    opset: 11,
    shows: "a mask of bools",
    attrs: { ratio: { float: 0.25 } },
    inputs: [data],
    outputs: [data, all],
  },
  {
    op: "Dropout",
    opset: 13,
    shows: "a ratio of 1 is refused",
    inputs: [data, of("float32", [], [1]), yes],
    throws: /ratio must lie in \[0, 1\), got 1/,
  },
];
