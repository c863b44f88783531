import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "MatMul",
    opset: 13,
    shows: "two matrices",
    inputs: [of("float32", [2, 3], [1, 2, 3, 4, 5, 6]), of("float32", [3, 2], [1, 0, 0, 1, 1, 1])],
    outputs: [of("float32", [2, 2], [4, 5, 10, 11])],
  },
  {
    op: "MatMul",
    opset: 13,
    shows: "two vectors give a scalar",
    inputs: [of("float64", [3], [1, 2, 3]), of("float64", [3], [4, 5, 6])],
    outputs: [of("float64", [], [32])],
  },
  {
    op: "MatMul",
    opset: 13,
    shows: "a vector against a batch",
    inputs: [of("int32", [2], [1, 10]), of("int32", [2, 2, 1], [1, 2, 3, 4])],
    outputs: [of("int32", [2, 1], [21, 43])],
  },
  {
    op: "MatMul",
    opset: 13,
    shows: "batches broadcast on both sides",
    inputs: [of("float32", [2, 1, 1, 1], [2, 3]), of("float32", [3, 1, 1], [1, 10, 100])],
    outputs: [of("float32", [2, 3, 1, 1], [2, 20, 200, 3, 30, 300])],
  },
  {
    op: "MatMul",
    opset: 13,
    shows: "32-bit integers wrap exactly",
    inputs: [of("uint32", [1, 1], [4294967295]), of("uint32", [1, 1], [4294967295])],
    outputs: [of("uint32", [1, 1], [1])],
  },
  {
    op: "MatMul",
    opset: 13,
    shows: "64-bit integers are exact",
    inputs: [of("int64", [1, 2], [9007199254740993n, 1n]), of("int64", [2, 1], [3n, 4n])],
    outputs: [of("int64", [1, 1], [27021597764222983n])],
  },
  {
    op: "MatMul",
    opset: 13,
    shows: "an empty inner dimension sums to zero",
    inputs: [of("float16", [1, 0], []), of("float16", [0, 2], [])],
    outputs: [of("float16", [1, 2], [0, 0])],
  },
  {
    op: "MatMul",
    opset: 13,
    shows: "inner dimensions that differ are refused",
    inputs: [of("float32", [1, 2], [1, 2]), of("float32", [3, 1], [1, 2, 3])],
    throws: /\[1,2\] · \[3,1\] must agree in the inner dimension, got 2 and 3/,
  },
  {
    op: "MatMul",
    opset: 13,
    shows: "a scalar is refused",
    inputs: [of("float32", [], [1]), of("float32", [1], [1])],
    throws: /the first operand must have at least 1 dimension/,
  },
];
