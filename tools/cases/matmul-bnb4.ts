import { of, type OpCase } from "./shared/case.js";

const domain = "com.microsoft";
const repeat = (value: number, count: number): number[] => new Array<number>(count).fill(value);
const ones = of("float32", [1, 16], repeat(1, 16));

export const cases: readonly OpCase[] = [
  {
    op: "MatMulBnb4",
    domain,
    opset: 1,
    shows: "FP4: the upper half of a byte is the first",
    attrs: { K: 16, N: 1, block_size: 16, quant_type: 0 },
    inputs: [
      of("float32", [1, 16], [1, ...repeat(0, 15)]),
      of("uint8", [8], [0x30, ...repeat(0x33, 7)]),
      of("float32", [1], [5]),
    ],
    outputs: [of("float32", [1, 1], [5])],
  },
  {
    op: "MatMulBnb4",
    domain,
    opset: 1,
    shows: "NF4: a block that goes on from row to row, not transposed",
    attrs: { K: 2, N: 16, block_size: 32, quant_type: 1, transB: 0 },
    inputs: [ones, of("uint8", [16], repeat(0xf0, 16)), of("float32", [1], [0.5])],
    outputs: [of("float32", [1, 2], [8, -8])],
  },
  {
    op: "MatMulBnb4",
    domain,
    opset: 1,
    shows: "too few bytes",
    attrs: { K: 16, N: 1, block_size: 16, quant_type: 0 },
    inputs: [ones, of("uint8", [7], repeat(0, 7)), of("float32", [1], [5])],
    throws: /B must hold 8 bytes, got 7/,
  },
];
