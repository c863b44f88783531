import { of, type OpCase } from "./shared/case.js";

const domain = "insitu";

export const cases: readonly OpCase[] = [
  {
    op: "MatMulBias",
    domain,
    opset: 1,
    shows: "every row gets the bias",
    inputs: [
      of("float32", [2, 1, 2], [1, 2, 3, 4]),
      of("float32", [2, 3], [1, 0, 1, 0, 1, 1]),
      of("float32", [3], [10, 20, 30]),
    ],
    outputs: [of("float32", [2, 1, 3], [11, 22, 33, 13, 24, 37])],
  },
  {
    op: "MatMulBias",
    domain,
    opset: 1,
    shows: "the sum is rounded once",
    inputs: [of("float16", [1, 1], [2048]), of("float16", [1, 1], [1.0009765625]), of("float16", [1], [-2048])],
    outputs: [of("float16", [1, 1], [2])],
  },
  {
    op: "MatMulBias",
    domain,
    opset: 1,
    shows: "no rows",
    inputs: [of("float32", [0, 2], []), of("float32", [2, 1], [1, 1]), of("float32", [1], [1])],
    outputs: [of("float32", [0, 1], [])],
  },
  {
    op: "MatMulBias",
    domain,
    opset: 1,
    shows: "a bias of another length is refused",
    inputs: [of("float32", [1, 1], [1]), of("float32", [1, 2], [1, 1]), of("float32", [1], [1])],
    throws: /bias must have an entry for every column of B, got 1 and 2/,
  },
  {
    op: "MatMulBias",
    domain,
    opset: 1,
    shows: "a batch of weights is refused",
    inputs: [of("float32", [1, 1, 1], [1]), of("float32", [1, 1, 1], [1]), of("float32", [1], [1])],
    throws: /B must have 2 dimensions/,
  },
];
