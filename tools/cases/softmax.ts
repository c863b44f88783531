import { of, type OpCase } from "./shared/case.js";

const third = 1 / 3;

export const cases: readonly OpCase[] = [
  {
    op: "Softmax",
    opset: 13,
    shows: "along the last axis, without overflow",
    inputs: [of("float32", [2, 2], [1000, 1000, 0, -Infinity])],
    outputs: [of("float32", [2, 2], [0.5, 0.5, 1, 0])],
  },
  {
    op: "Softmax",
    opset: 13,
    shows: "along an axis in the middle",
    attrs: { axis: 1 },
    inputs: [of("float64", [1, 3, 2], [1, 0, 1, 0, 1, 0])],
    outputs: [of("float64", [1, 3, 2], [third, third, third, third, third, third])],
    tolerance: 1e-15,
  },
  {
    op: "Softmax",
    opset: 11,
    shows: "before opset 13 everything from the axis on is one row",
    inputs: [of("float32", [1, 2, 2], [7, 7, 7, 7])],
    outputs: [of("float32", [1, 2, 2], [0.25, 0.25, 0.25, 0.25])],
  },
  {
    op: "LogSoftmax",
    opset: 13,
    shows: "float16 is rounded once",
    attrs: { axis: 0 },
    inputs: [of("float16", [2], [0, 0])],
    outputs: [of("float16", [2], [-Math.log(2), -Math.log(2)])],
  },
  {
    op: "LogSoftmax",
    opset: 11,
    shows: "the coerced form",
    attrs: { axis: 0 },
    inputs: [of("float64", [2, 2], [3, 3, 3, 3])],
    outputs: [of("float64", [2, 2], [-Math.log(4), -Math.log(4), -Math.log(4), -Math.log(4)])],
  },
  {
    op: "Softmax",
    opset: 13,
    shows: "a scalar is refused",
    inputs: [of("float32", [], [1])],
    throws: /input must have at least 1 dimension, got a scalar/,
  },
];
