import { of, type OpCase } from "./shared/case.js";

const column = of("float32", [2, 1], [1, 5]);
const row = of("float32", [2], [3, NaN]);
const scalar = of("float32", [], [2]);

export const cases: readonly OpCase[] = [
  {
    op: "Max",
    opset: 13,
    shows: "NaN wins",
    inputs: [column, row, scalar],
    outputs: [of("float32", [2, 2], [3, NaN, 5, NaN])],
  },
  {
    op: "Min",
    opset: 8,
    shows: "NaN wins",
    inputs: [column, row, scalar],
    outputs: [of("float32", [2, 2], [1, NaN, 2, NaN])],
  },
  {
    op: "Sum",
    opset: 13,
    shows: "broadcast",
    inputs: [column, row, scalar],
    outputs: [of("float32", [2, 2], [6, NaN, 10, NaN])],
  },
  { op: "Mean", opset: 13, shows: "broadcast", inputs: [column, scalar], outputs: [of("float32", [2, 1], [1.5, 3.5])] },
  { op: "Sum", opset: 8, shows: "one operand alone", inputs: [scalar], outputs: [scalar] },
  {
    op: "Max",
    opset: 13,
    shows: "64-bit integers past 2^53",
    inputs: [of("uint64", [1], [2n ** 63n]), of("uint64", [1], [2n ** 63n + 1n])],
    outputs: [of("uint64", [1], [2n ** 63n + 1n])],
  },
  { op: "Min", opset: 13, shows: "no operand is refused", inputs: [], throws: /data_0 needs at least 1 tensor, got 0/ },
];
