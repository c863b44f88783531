import { of, type OpCase } from "./shared/case.js";

const wide = of("int32", [2, 3], [9, 9, 9, 9, 9, 9]);

export const cases: readonly OpCase[] = [
  {
    op: "EyeLike",
    opset: 9,
    shows: "the operand's type by default",
    inputs: [wide],
    outputs: [of("int32", [2, 3], [1, 0, 0, 0, 1, 0])],
  },
  {
    op: "EyeLike",
    opset: 22,
    shows: "a diagonal below, of another type",
    attrs: { k: -1, dtype: 16 },
    inputs: [wide],
    outputs: [of("bfloat16", [2, 3], [0, 0, 0, 1, 0, 0])],
  },
  {
    op: "EyeLike",
    opset: 9,
    shows: "a diagonal outside",
    attrs: { k: 7, dtype: 7 },
    inputs: [wide],
    outputs: [of("int64", [2, 3], [0, 0, 0, 0, 0, 0])],
  },
  {
    op: "EyeLike",
    opset: 9,
    shows: "one dimension is refused",
    inputs: [of("int32", [2], [1, 2])],
    throws: /input must have 2 dimensions, got int32\[2\]/,
  },
  {
    op: "EyeLike",
    opset: 9,
    shows: "strings are refused",
    attrs: { dtype: 8 },
    inputs: [wide],
    throws: /output output cannot be/,
  },
];
