import { of, type OpCase } from "./shared/case.js";

const call = { op: "PagedCachedAttention", domain: "insitu", opset: 1, tolerance: 1e-6 } as const;
const attrs: NonNullable<OpCase["attrs"]> = {
  q_num_heads: 1,
  kv_num_heads: 1,
  head_size: 2,
  cache_mode: "NHSD",
  is_causal: 1,
  scale: { float: 0.5 },
};
const all = of("float32", [1, 1, 6], [1, 2, 0.5, 1, 3, -1]);
// The sample's first block is the second: its first row is there, the next one is written.
const [pastKey, pastValue] = [
  of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 1, 0, 7, 7]),
  of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 2, 4, 7, 7]),
];
const tables = [of("int64", [1, 1], [1]), of("int64", [1], [2])];

export const cases: readonly OpCase[] = [
  {
    ...call,
    shows: "the new row is written to its slot and attended to",
    attrs,
    inputs: [all, undefined, undefined, pastKey, pastValue, of("int64", [1], [3]), ...tables],
    outputs: [
      of("float32", [1, 1, 2], [2.6791786992, 0.6041065041]),
      of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 1, 0, 0.5, 1]),
      of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 2, 4, 3, -1]),
    ],
  },
  {
    ...call,
    shows: "queries and keys are turned first",
    attrs,
    inputs: [
      all,
      undefined,
      undefined,
      pastKey,
      pastValue,
      of("int64", [1], [3]),
      ...tables,
      of("float32", [2, 1], [1, 0]),
      of("float32", [2, 1], [0, 1]),
      of("int64", [1, 1], [1]),
    ],
    outputs: [
      of("float32", [1, 1, 2], [2.9046505351, -0.5232526755]),
      of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 1, 0, -1, 0.5]),
      of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 2, 4, 3, -1]),
    ],
  },
  {
    ...call,
    shows: "a slot behind the last is refused",
    attrs,
    inputs: [all, undefined, undefined, pastKey, pastValue, of("int64", [1], [4]), ...tables],
    throws: /slot_mapping\[0\]/,
  },
  {
    ...call,
    shows: "keys without values are refused",
    attrs,
    inputs: [
      of("float32", [1, 1, 2], [1, 2]),
      of("float32", [1, 1, 2], [1, 2]),
      undefined,
      pastKey,
      pastValue,
      of("int64", [1], [3]),
      ...tables,
    ],
    throws: /K and V are given together, or neither where Q holds all three/,
  },
];
