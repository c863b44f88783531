import { of, type OpCase } from "./shared/case.js";

const packed = of("int4", [3], [1, -2, 7]);

export const cases: readonly OpCase[] = [
  { op: "Constant", opset: 25, shows: "a tensor", attrs: { value: packed }, inputs: [], outputs: [packed] },
  {
    op: "Constant",
    opset: 13,
    shows: "one float",
    attrs: { value_float: { float: 0.1 } },
    inputs: [],
    outputs: [of("float32", [], [0.1])],
  },
  {
    op: "Constant",
    opset: 13,
    shows: "floats",
    attrs: { value_floats: { floats: [1, -0] } },
    inputs: [],
    outputs: [of("float32", [2], [1, -0])],
  },
  {
    op: "Constant",
    opset: 13,
    shows: "one integer",
    attrs: { value_int: 7 },
    inputs: [],
    outputs: [of("int64", [], [7])],
  },
  {
    op: "Constant",
    opset: 13,
    shows: "integers",
    attrs: { value_ints: [1, 2] },
    inputs: [],
    outputs: [of("int64", [2], [1, 2])],
  },
  {
    op: "Constant",
    opset: 13,
    shows: "one string",
    attrs: { value_string: "a" },
    inputs: [],
    outputs: [of("string", [], ["a"])],
  },
  {
    op: "Constant",
    opset: 13,
    shows: "strings",
    attrs: { value_strings: ["a", "b"] },
    inputs: [],
    outputs: [of("string", [2], ["a", "b"])],
  },
  {
    op: "Constant",
    opset: 13,
    shows: "no value is refused",
    inputs: [],
    throws: /takes exactly one attribute, got none/,
  },
  {
    op: "Constant",
    opset: 13,
    shows: "two values are refused",
    attrs: { value_int: 1, value_string: "a" },
    inputs: [],
    throws: /takes exactly one attribute, got value_int, value_string/,
  },
];
