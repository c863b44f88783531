import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

const domain = "com.microsoft";
const ones = (count: number): View => of("float32", [1, count], new Array<number>(count).fill(1));
const bytes = (shape: readonly number[], values: readonly number[]): View => of("uint8", shape, values);
const repeat = (value: number, count: number): number[] => new Array<number>(count).fill(value);

export const cases: readonly OpCase[] = [
  {
    op: "MatMulNBits",
    domain,
    opset: 1,
    shows: "4 bits, the zero point in the middle, the last block cut off by K",
    attrs: { K: 18, N: 1, bits: 4, block_size: 16 },
    inputs: [
      ones(18),
      bytes([1, 2, 8], [...repeat(0x99, 8), 0x9a, ...repeat(0xff, 7)]),
      of("float32", [1, 2], [1, 10]),
    ],
    outputs: [of("float32", [1, 1], [16 + 30])],
  },
  {
    op: "MatMulNBits",
    domain,
    opset: 1,
    shows: "2 bits with packed zero points and a bias",
    attrs: { K: 32, N: 2, bits: 2, block_size: 16 },
    inputs: [
      ones(32),
      bytes([2, 2, 4], [...repeat(0b11111111, 4), ...repeat(0b01010101, 4), ...repeat(0, 8)]),
      of("float32", [2, 2], [1, 1, 1, 1]),
      bytes([2, 1], [0b0100, 0b1000]),
      undefined,
      of("float32", [2], [0.5, 0.25]),
    ],
    outputs: [of("float32", [1, 2], [48.5, -31.75])],
  },
  {
    op: "MatMulNBits",
    domain,
    opset: 1,
    shows: "8 bits with zero points of A's type, and g_idx that swaps the blocks' scales",
    attrs: { K: 32, N: 1, bits: 8, block_size: 16 },
    inputs: [
      ones(32),
      bytes([1, 2, 16], repeat(3, 32)),
      of("float32", [2], [1, 10]),
      of("float32", [2], [0.5, 1]),
      of("int32", [32], [...repeat(1, 16), ...repeat(0, 16)]),
    ],
    outputs: [of("float32", [1, 1], [16 * 20 + 16 * 2.5])],
  },
  {
    op: "MatMulNBits",
    domain,
    opset: 1,
    shows: "packed weights of another shape are refused",
    attrs: { K: 16, N: 1, bits: 4, block_size: 16 },
    inputs: [ones(16), bytes([1, 1, 7], repeat(0, 7)), of("float32", [1, 1], [1])],
    throws: /B must be \[1,1,8\], got \[1,1,7\]/,
  },
  {
    op: "MatMulNBits",
    domain,
    opset: 1,
    shows: "a group that does not exist is refused",
    attrs: { K: 16, N: 1, bits: 4, block_size: 16 },
    inputs: [
      ones(16),
      bytes([1, 1, 8], repeat(0, 8)),
      of("float32", [1, 1], [1]),
      undefined,
      of("int32", [16], repeat(1, 16)),
    ],
    throws: /g_idx\[0\] must lie in \[0, 0\], got 1/,
  },
];
