import { of, type OpCase } from "./shared/case.js";

const call = { op: "Projection", domain: "insitu", opset: 1, tolerance: 1e-6 } as const;
const [a, b] = [of("float32", [1, 2], [3, 4]), of("float32", [2, 4], [1, 0, 2, 1, 0, 1, 1, -1])];
const scale = of("float32", [2], [1, 2]);

export const cases: readonly OpCase[] = [
  {
    ...call,
    shows: "a product, with a bias for each column and an addend for each element",
    attrs: { K: 2, N: 4 },
    inputs: [
      a,
      b,
      undefined,
      undefined,
      of("float32", [4], [1, 1, 1, 1]),
      undefined,
      of("float32", [1, 4], [10, 20, 30, 40]),
    ],
    outputs: [of("float32", [1, 4], [14, 25, 41, 40])],
  },
  {
    ...call,
    shows: "the norm of the rows comes first",
    attrs: { K: 2, N: 4, epsilon: { float: 0 } },
    inputs: [a, b, undefined, undefined, undefined, scale],
    outputs: [of("float32", [1, 4], [0.8485281374, 2.2627416998, 3.9597979746, -1.4142135624])],
  },
  {
    ...call,
    shows: "columns in pairs are a gate and what it lets through",
    attrs: { K: 2, N: 4, gated: 1, epsilon: { float: 0 } },
    inputs: [a, b, undefined, undefined, undefined, scale],
    outputs: [of("float32", [1, 2], [1.3444959256, -5.4952227747])],
  },
  {
    ...call,
    shows: "weights in blocks of 4 bits",
    attrs: { K: 16, N: 1, bits: 4, block_size: 16 },
    inputs: [
      of("float32", [1, 16], [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
      of("uint8", [1, 1, 8], [0x9a, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88]),
      of("float32", [1], [0.5]),
    ],
    outputs: [of("float32", [1, 1], [2])],
  },
  {
    ...call,
    shows: "a gate with an odd number of columns is refused",
    attrs: { K: 2, N: 3, gated: 1 },
    inputs: [a, of("float32", [2, 3], [1, 0, 2, 1, 0, 1])],
    throws: /a gate needs pairs of columns, got 3/,
  },
];
