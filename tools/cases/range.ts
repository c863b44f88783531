import { of, type OpCase } from "./shared/case.js";

const ints = (...values: (number | bigint)[]) => values.map((value) => of("int64", [], [value]));
const floats = (...values: number[]) => values.map((value) => of("float32", [], [value]));
const halves = (...values: number[]) => values.map((value) => of("bfloat16", [], [value]));

export const cases: readonly OpCase[] = [
  {
    op: "Range",
    opset: 11,
    shows: "the limit is left out",
    inputs: ints(3, 9, 3),
    outputs: [of("int64", [2], [3, 6])],
  },
  { op: "Range", opset: 11, shows: "downwards", inputs: ints(10, 4, -2), outputs: [of("int64", [3], [10, 8, 6])] },
  {
    op: "Range",
    opset: 11,
    shows: "the wrong way gives nothing",
    inputs: ints(0, 4, -1),
    outputs: [of("int64", [0], [])],
  },
  {
    op: "Range",
    opset: 11,
    shows: "a part of a step counts",
    inputs: floats(1, 2.25, 0.5),
    outputs: [of("float32", [3], [1, 1.5, 2])],
  },
  {
    op: "Range",
    opset: 11,
    shows: "64 bits stay exact",
    inputs: ints(9223372036854775805n, 9223372036854775807n, 1),
    outputs: [of("int64", [2], [9223372036854775805n, 9223372036854775806n])],
  },
  {
    op: "Range",
    opset: 27,
    shows: "small floats do not get stuck",
    inputs: halves(254, 262, 2),
    outputs: [of("bfloat16", [4], [254, 256, 258, 260])],
  },
  { op: "Range", opset: 11, shows: "a step of 0 is refused", inputs: ints(0, 1, 0), throws: /delta must not be 0/ },
  {
    op: "Range",
    opset: 11,
    shows: "NaN is refused",
    inputs: floats(0, NaN, 1),
    throws: /from 0 to NaN by 1 is no number of steps/,
  },
  {
    op: "Range",
    opset: 11,
    shows: "more steps than memory holds are refused",
    inputs: floats(0, 1e15, 1),
    throws: /cannot be allocated/,
  },
  {
    op: "Range",
    opset: 11,
    shows: "a vector as start is refused",
    inputs: [of("int64", [2], [0, 1]), ...ints(4, 1)],
    throws: /start must hold exactly one element/,
  },
];
