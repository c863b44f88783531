import { of, type OpCase } from "./shared/case.js";

const cube = of("int2", [2, 1, 3], [1, 0, 1, -1, 0, 1]);

export const cases: readonly OpCase[] = [
  { op: "Shape", opset: 25, shows: "all dimensions", inputs: [cube], outputs: [of("int64", [3], [2, 1, 3])] },
  {
    op: "Shape",
    opset: 1,
    shows: "a scalar has none",
    inputs: [of("string", [], ["a"])],
    outputs: [of("int64", [0], [])],
  },
  {
    op: "Shape",
    opset: 25,
    shows: "from and to, counted from the back",
    attrs: { start: -2, end: -1 },
    inputs: [cube],
    outputs: [of("int64", [1], [1])],
  },
  {
    op: "Shape",
    opset: 15,
    shows: "both ends are clamped",
    attrs: { start: -9, end: 9 },
    inputs: [of("bool", [0, 2], [])],
    outputs: [of("int64", [2], [0, 2])],
  },
  {
    op: "Shape",
    opset: 15,
    shows: "a start after the end takes nothing",
    attrs: { start: 2, end: 1 },
    inputs: [of("bool", [0, 2], [])],
    outputs: [of("int64", [0], [])],
  },
  {
    op: "Shape",
    opset: 13,
    shows: "start comes with opset 15",
    attrs: { start: 1 },
    inputs: [of("bool", [1], [1])],
    throws: /unknown attribute "start"/,
  },
  { op: "Size", opset: 25, shows: "the number of elements", inputs: [cube], outputs: [of("int64", [], [6])] },
  {
    op: "Size",
    opset: 1,
    shows: "one for a scalar",
    inputs: [of("string", [], ["a"])],
    outputs: [of("int64", [], [1])],
  },
];
