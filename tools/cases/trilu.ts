import { of, type OpCase } from "./shared/case.js";

const square = of("int16", [2, 3], [1, 2, 3, 4, 5, 6]);
const k = (value: number | bigint) => of("int64", [], [value]);

export const cases: readonly OpCase[] = [
  {
    op: "Trilu",
    opset: 14,
    shows: "the upper triangle",
    inputs: [square],
    outputs: [of("int16", [2, 3], [1, 2, 3, 0, 5, 6])],
  },
  {
    op: "Trilu",
    opset: 14,
    shows: "the lower triangle",
    attrs: { upper: 0 },
    inputs: [square],
    outputs: [of("int16", [2, 3], [1, 0, 0, 4, 5, 0])],
  },
  {
    op: "Trilu",
    opset: 14,
    shows: "strings below a diagonal, a batch of one",
    attrs: { upper: 0 },
    inputs: [of("string", [1, 2, 2], ["a", "b", "c", "d"]), k(-1)],
    outputs: [of("string", [1, 2, 2], ["", "", "c", ""])],
  },
  {
    op: "Trilu",
    opset: 14,
    shows: "a diagonal far outside",
    inputs: [square, k(-9223372036854775807n)],
    outputs: [square],
  },
  {
    op: "Trilu",
    opset: 14,
    shows: "a vector is refused",
    inputs: [of("int16", [2], [1, 2])],
    throws: /input must have at least 2 dimensions, got \[2\]/,
  },
];
