import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "RandomUniform",
    opset: 22,
    shows: "one number alone is possible",
    attrs: { shape: [2], low: { float: 3 }, high: { float: 3 }, dtype: 11 },
    inputs: [],
    outputs: [of("float64", [2], [3, 3])],
  },
  {
    op: "RandomNormal",
    opset: 22,
    shows: "no spread",
    attrs: { shape: [1, 2], mean: { float: 2 }, scale: { float: 0 } },
    inputs: [],
    outputs: [of("float32", [1, 2], [2, 2])],
  },
  {
    op: "RandomNormalLike",
    opset: 22,
    shows: "the shape of integers, in float32",
    attrs: { mean: { float: 2 }, scale: { float: 0 } },
    inputs: [of("int64", [2], [1, 2])],
    outputs: [of("float32", [2], [2, 2])],
  },
  {
    op: "RandomUniformLike",
    opset: 22,
    shows: "integers cannot be asked for",
    attrs: { dtype: 7 },
    inputs: [of("float32", [2], [1, 2])],
    throws: /dtype must be a type of floats, got int64/,
  },
  {
    op: "Multinomial",
    opset: 22,
    shows: "one class alone has weight",
    attrs: { sample_size: 2, dtype: 7 },
    inputs: [of("float32", [2, 2], [-Infinity, 0, 3, -Infinity])],
    outputs: [of("int64", [2, 2], [1, 1, 0, 0])],
  },
  {
    op: "Bernoulli",
    opset: 22,
    shows: "what is certain",
    attrs: { dtype: 9 },
    inputs: [of("float32", [2], [0, 1])],
    outputs: [of("bool", [2], [false, true])],
  },
];
