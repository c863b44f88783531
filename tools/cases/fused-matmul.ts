import { of, type OpCase } from "./shared/case.js";

const domain = "com.microsoft";

export const cases: readonly OpCase[] = [
  {
    op: "FusedMatMul",
    domain,
    opset: 1,
    shows: "both operands transposed, times alpha",
    attrs: { transA: 1, transB: 1, alpha: { float: 0.5 } },
    inputs: [of("float32", [2, 1], [1, 2]), of("float32", [3, 2], [1, 2, 3, 4, 5, 6])],
    outputs: [of("float32", [1, 3], [2.5, 5.5, 8.5])],
  },
  {
    op: "FusedMatMul",
    domain,
    opset: 1,
    shows: "transBatchA reads [m, batch, k] as [batch, m, k]",
    attrs: { transBatchA: 1 },
    inputs: [of("float64", [2, 3, 1], [1, 2, 3, 4, 5, 6]), of("float64", [3, 1, 1], [1, 10, 100])],
    outputs: [of("float64", [3, 2, 1], [1, 4, 20, 50, 300, 600])],
  },
  {
    op: "FusedMatMul",
    domain,
    opset: 1,
    shows: "a vector is not transposed",
    attrs: { transA: 1 },
    inputs: [of("float16", [2], [1, 2]), of("float16", [2, 1], [3, 4])],
    outputs: [of("float16", [1], [11])],
  },
  {
    op: "FusedMatMul",
    domain,
    opset: 1,
    shows: "batch transposition of matrices is refused",
    attrs: { transBatchB: 1 },
    inputs: [of("float32", [1, 1], [1]), of("float32", [1, 1], [1])],
    throws: /at least 3 dimensions, got 2/,
  },
];
