import { of, type OpCase } from "./shared/case.js";

const axis = (value: number) => of("int32", [], [value]);
const matrix = of("float32", [2, 2], [1, 2, 3, 4]);

export const cases: readonly OpCase[] = [
  {
    op: "CumSum",
    opset: 11,
    shows: "along the first axis",
    inputs: [matrix, axis(0)],
    outputs: [of("float32", [2, 2], [1, 2, 4, 6])],
  },
  {
    op: "CumSum",
    opset: 14,
    shows: "from the end, the element itself left out",
    attrs: { exclusive: 1, reverse: 1 },
    inputs: [of("bfloat16", [3], [1, 2, 3]), axis(-1)],
    outputs: [of("bfloat16", [3], [5, 3, 0])],
  },
  {
    op: "CumSum",
    opset: 14,
    shows: "64-bit sums wrap",
    inputs: [of("int64", [2], [9223372036854775807n, 1]), axis(0)],
    outputs: [of("int64", [2], [9223372036854775807n, -9223372036854775808n])],
  },
  {
    op: "CumSum",
    opset: 14,
    shows: "32-bit sums wrap",
    inputs: [of("uint32", [2], [4294967295, 2]), axis(0)],
    outputs: [of("uint32", [2], [4294967295, 1])],
  },
  {
    op: "CumProd",
    opset: 26,
    shows: "32-bit products wrap",
    inputs: [of("int32", [3], [65537, 65537, 3]), axis(0)],
    outputs: [of("int32", [3], [65537, 131073, 393219])],
  },
  {
    op: "CumProd",
    opset: 26,
    shows: "the element itself left out",
    attrs: { exclusive: 1 },
    inputs: [matrix, axis(1)],
    outputs: [of("float32", [2, 2], [1, 1, 1, 3])],
  },
  {
    op: "CumSum",
    opset: 14,
    shows: "an axis past the rank is refused",
    inputs: [matrix, axis(2)],
    throws: /axis must lie in \[-2, 1\] for rank 2, got 2/,
  },
];
