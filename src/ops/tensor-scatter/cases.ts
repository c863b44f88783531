import { of, type OpCase } from "../../graph/case.js";

const past = of("float32", [1, 4, 2], [0, 0, 0, 0, 0, 0, 0, 0]);
const row = of("float32", [1, 1, 2], [7, 8]);

export const cases: readonly OpCase[] = [
  {
    op: "TensorScatter",
    opset: 24,
    shows: "one row is written at its index",
    inputs: [past, row, of("int64", [1], [2])],
    outputs: [of("float32", [1, 4, 2], [0, 0, 0, 0, 7, 8, 0, 0])],
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "circular mode wraps the sequence index only",
    attrs: { mode: "circular", axis: 1 },
    inputs: [of("int8", [2, 3], [1, 2, 3, 4, 5, 6]), of("int8", [2, 2], [7, 8, 9, 10]), of("int64", [2], [2, 4])],
    outputs: [of("int8", [2, 3], [8, 2, 7, 4, 9, 10])],
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "packed 4-bit rows that start in the middle of a byte",
    inputs: [of("int4", [1, 3, 3], [1, 2, 3, 4, 5, 6, 7, -8, -1]), of("int4", [1, 1, 3], [-2, -3, -4]), of("int64", [1], [1])],
    outputs: [of("int4", [1, 3, 3], [1, 2, 3, -2, -3, -4, 7, -8, -1])],
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "a linear write past the capacity is refused",
    inputs: [past, row, of("int64", [1], [4])],
    throws: /write_indices\[0\] \+ length <= capacity, got 4 \+ 1 > 4/,
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "a negative index is refused",
    inputs: [past, row, of("int64", [1], [-1])],
    throws: /write_indices\[0\] must not be negative, got -1/,
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "axis 0 is refused",
    attrs: { axis: 0 },
    inputs: [past, row],
    throws: /axis must not be 0/,
  },
];
