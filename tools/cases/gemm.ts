import { of, type OpCase } from "./shared/case.js";

const a = of("float32", [2, 2], [1, 2, 3, 4]);
const b = of("float32", [2, 1], [1, 10]);

export const cases: readonly OpCase[] = [
  {
    op: "Gemm",
    opset: 13,
    shows: "transposes, factors and a column",
    attrs: { transA: 1, transB: 1, alpha: { float: 2 }, beta: { float: 0.5 } },
    inputs: [a, of("float32", [1, 2], [1, 10]), of("float32", [2, 1], [2, 4])],
    outputs: [of("float32", [2, 1], [63, 86])],
  },
  {
    op: "Gemm",
    opset: 11,
    shows: "without an addend",
    inputs: [a, b],
    outputs: [of("float32", [2, 1], [21, 43])],
  },
  {
    op: "Gemm",
    opset: 13,
    shows: "a scalar addend",
    inputs: [a, b, of("float32", [], [1])],
    outputs: [of("float32", [2, 1], [22, 44])],
  },
  {
    op: "Gemm",
    opset: 13,
    shows: "beta 0 does not read C",
    attrs: { beta: { float: 0 } },
    inputs: [a, b, of("float32", [1], [NaN])],
    outputs: [of("float32", [2, 1], [21, 43])],
  },
  {
    op: "Gemm",
    opset: 13,
    shows: "64-bit integers with whole factors are exact",
    attrs: { alpha: { float: -1 }, beta: { float: 2 } },
    inputs: [
      of("int64", [1, 1], [9007199254740993n]),
      of("int64", [1, 1], [1n]),
      of("int64", [1, 1], [9007199254740993n]),
    ],
    outputs: [of("int64", [1, 1], [9007199254740993n])],
  },
  {
    op: "Gemm",
    opset: 13,
    shows: "integers truncate where a factor is not whole",
    attrs: { alpha: { float: 0.5 } },
    inputs: [of("uint32", [1, 1], [4294967295]), of("uint32", [1, 1], [1])],
    outputs: [of("uint32", [1, 1], [2147483647])],
  },
  {
    op: "Gemm",
    opset: 13,
    shows: "an addend that does not broadcast is refused",
    inputs: [a, b, of("float32", [2], [1, 2])],
    throws: /C must broadcast to \[2,1\], got \[2\]/,
  },
];
