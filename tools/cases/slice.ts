import { of, type OpCase } from "./shared/case.js";

const matrix = of("int16", [2, 4], [1, 2, 3, 4, 5, 6, 7, 8]);
const far = 9223372036854775807n;
const ints = (...values: (number | bigint)[]) => of("int64", [values.length], values);

export const cases: readonly OpCase[] = [
  {
    op: "Slice",
    opset: 13,
    shows: "negative starts and an end past the end",
    inputs: [matrix, ints(0, -3), ints(1, far)],
    outputs: [of("int16", [1, 3], [2, 3, 4])],
  },
  {
    op: "Slice",
    opset: 10,
    shows: "a negative step walks back to before the first element",
    inputs: [
      matrix,
      of("int32", [1], [3]),
      of("int32", [1], [-2147483648]),
      of("int32", [1], [-1]),
      of("int32", [1], [-2]),
    ],
    outputs: [of("int16", [2, 2], [4, 2, 8, 6])],
  },
  {
    op: "Slice",
    opset: 13,
    shows: "steps as far as 64 bits go",
    inputs: [matrix, ints(-1), ints(-far - 1n), ints(1), ints(-far - 1n)],
    outputs: [of("int16", [2, 1], [4, 8])],
  },
  {
    op: "Slice",
    opset: 13,
    shows: "a start after the end takes nothing",
    inputs: [matrix, ints(3), ints(1), ints(1)],
    outputs: [of("int16", [2, 0], [])],
  },
  {
    op: "Slice",
    opset: 9,
    shows: "bounds as attributes",
    attrs: { starts: [1], ends: [1000], axes: [0] },
    inputs: [of("string", [2, 1], ["a", "b"])],
    outputs: [of("string", [1, 1], ["b"])],
  },
  {
    op: "Slice",
    opset: 13,
    shows: "a step of 0 is refused",
    inputs: [matrix, ints(0), ints(1), ints(0), ints(0)],
    throws: /steps must not be 0/,
  },
  {
    op: "Slice",
    opset: 13,
    shows: "an axis that comes twice is refused",
    inputs: [matrix, ints(0, 0), ints(1, 1), ints(1, -1)],
    throws: /axes must differ, got \[1,-1\]/,
  },
  {
    op: "Slice",
    opset: 13,
    shows: "lists of different lengths are refused",
    inputs: [matrix, ints(0, 0), ints(1)],
    throws: /starts, ends, axes and steps must have one length/,
  },
];
