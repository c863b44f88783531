import { of, type OpCase } from "./shared/case.js";

const call = { op: "CachedAttention", domain: "insitu", opset: 1, tolerance: 1e-6 } as const;
const attrs: NonNullable<OpCase["attrs"]> = {
  q_num_heads: 1,
  kv_num_heads: 1,
  head_size: 2,
  axis: 2,
  is_causal: 1,
  scale: { float: 0.5 },
};
const all = of("float32", [1, 1, 6], [1, 2, 0.5, 1, 3, -1]);
const [pastKey, pastValue] = [
  of("float32", [1, 1, 3, 2], [1, 0, 7, 7, 9, 9]),
  of("float32", [1, 1, 3, 2], [2, 4, 7, 7, 9, 9]),
];
const lengths = [of("int64", [1], [1]), of("int64", [1], [2])];

const { axis: _, ...ofPages } = attrs;
const pageAttrs: NonNullable<OpCase["attrs"]> = { ...ofPages, cache_mode: "NHSD" };
// The sample's first block is the second: its first row is there, the next one is written.
const [keyPages, valuePages] = [
  of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 1, 0, 7, 7]),
  of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 2, 4, 7, 7]),
];
const tables = (slot: number) => [of("int64", [1], [slot]), of("int64", [1, 1], [1]), of("int64", [1], [2])];
/** No numbers of linear caches, no tables of angles, no norms. */
const nothing = Array.from({ length: 7 }, () => undefined);

export const cases: readonly OpCase[] = [
  {
    ...call,
    shows: "the new row is written and attended to; rows behind it are neither",
    attrs,
    inputs: [all, undefined, undefined, pastKey, pastValue, ...lengths],
    outputs: [
      of("float32", [1, 1, 2], [2.6791786992, 0.6041065041]),
      of("float32", [1, 1, 3, 2], [1, 0, 0.5, 1, 9, 9]),
      of("float32", [1, 1, 3, 2], [2, 4, 3, -1, 9, 9]),
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
      ...lengths,
      of("float32", [2, 1], [1, 0]),
      of("float32", [2, 1], [0, 1]),
      of("int64", [1, 1], [1]),
    ],
    outputs: [
      of("float32", [1, 1, 2], [2.9046505351, -0.5232526755]),
      of("float32", [1, 1, 3, 2], [1, 0, -1, 0.5, 9, 9]),
      of("float32", [1, 1, 3, 2], [2, 4, 3, -1, 9, 9]),
    ],
  },
  {
    ...call,
    shows: "a row behind the last is refused",
    attrs,
    inputs: [all, undefined, undefined, pastKey, pastValue, of("int64", [1], [3]), of("int64", [1], [3])],
    throws: /linear mode needs write_indices\[0\] \+ length <= capacity, got 3 \+ 1 > 3/,
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
      ...lengths,
    ],
    throws: /K and V are given together, or neither where Q holds all three/,
  },
  {
    ...call,
    shows: "on pages, the new row is written to its slot and attended to",
    attrs: pageAttrs,
    inputs: [all, undefined, undefined, keyPages, valuePages, ...nothing, ...tables(3)],
    outputs: [
      of("float32", [1, 1, 2], [2.6791786992, 0.6041065041]),
      of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 1, 0, 0.5, 1]),
      of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 2, 4, 3, -1]),
    ],
  },
  {
    ...call,
    shows: "on pages, queries and keys are turned first",
    attrs: pageAttrs,
    inputs: [
      all,
      undefined,
      undefined,
      keyPages,
      valuePages,
      undefined,
      undefined,
      of("float32", [2, 1], [1, 0]),
      of("float32", [2, 1], [0, 1]),
      of("int64", [1, 1], [1]),
      undefined,
      undefined,
      ...tables(3),
    ],
    outputs: [
      of("float32", [1, 1, 2], [2.9046505351, -0.5232526755]),
      of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 1, 0, -1, 0.5]),
      of("float32", [2, 1, 2, 2], [7, 7, 9, 9, 2, 4, 3, -1]),
    ],
  },
  {
    ...call,
    shows: "on pages, a slot behind the last is refused",
    attrs: pageAttrs,
    inputs: [all, undefined, undefined, keyPages, valuePages, ...nothing, ...tables(4)],
    throws: /slot_mapping\[0\]/,
  },
  {
    ...call,
    shows: "pages without tables are refused",
    attrs: pageAttrs,
    inputs: [all, undefined, undefined, keyPages, valuePages, ...nothing, of("int64", [1], [3])],
    throws: /linear caches need nonpad_kv_seqlen; pages slot_mapping, block_tables and seq_lens/,
  },
  {
    ...call,
    shows: "an axis of rows is of linear caches",
    attrs,
    inputs: [all, undefined, undefined, keyPages, valuePages, ...nothing, ...tables(3)],
    throws: /linear caches, and no others, have an axis/,
  },
];
