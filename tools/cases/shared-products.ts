import { of, type OpCase } from "./shared/case.js";

const call = { op: "SharedProducts", domain: "insitu", opset: 1, tolerance: 1e-6 } as const;
const a = of("float32", [1, 16], [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
const row = (first: number): number[] => [first, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88];
const weights = (...firsts: readonly number[]): ReturnType<typeof of> =>
  of("uint8", [firsts.length, 1, 8], firsts.flatMap(row));
const attrs = { K: 16, bits: 4, block_size: 16 };
const one = of("float32", [1], [1]);
/** Three products of one column each, without the last one's zero point. */
const three = [
  a,
  weights(0x9a),
  of("float32", [1], [0.5]),
  undefined,
  undefined,
  weights(0x89),
  one,
  undefined,
  undefined,
  weights(0x89),
  one,
];

export const cases: readonly OpCase[] = [
  {
    ...call,
    shows: "two products, the second with a bias",
    attrs: { ...attrs, N1: 1, N2: 2 },
    inputs: [
      a,
      weights(0x9a),
      of("float32", [1], [0.5]),
      undefined,
      undefined,
      weights(0x89, 0x98),
      of("float32", [2], [1, 2]),
      undefined,
      of("float32", [2], [10, 20]),
    ],
    outputs: [of("float32", [1, 1], [2]), of("float32", [1, 2], [11, 24])],
  },
  {
    ...call,
    shows: "three products, the last with a zero point",
    attrs: { ...attrs, N1: 1, N2: 1, N3: 1 },
    inputs: [...three, of("uint8", [1], [7])],
    outputs: [of("float32", [1, 1], [2]), of("float32", [1, 1], [1]), of("float32", [1, 1], [4])],
  },
  {
    ...call,
    shows: "a third product without its columns is refused",
    attrs: { ...attrs, N1: 1, N2: 1 },
    inputs: three,
    throws: /B3, scales3 and N3 are given together/,
  },
];
