import { of, type OpCase } from "./shared/case.js";

const gather = (given: Omit<OpCase, "op" | "domain" | "opset">): OpCase => ({
  op: "GatherPaKvCache",
  domain: "insitu",
  opset: 1,
  ...given,
});

const cache = of("float32", [4, 2, 1, 1], [0, 1, 2, 3, 4, 5, 6, 7]);
const tables = of("int32", [2, 3], [3, 1, 0, 2, 0, 0]);
const lengths = of("int32", [2], [3, 2]);

export const cases: readonly OpCase[] = [
  gather({
    shows: "the tokens of each sequence, block by block",
    inputs: [cache, undefined, tables, lengths],
    outputs: [of("float32", [5, 1, 1], [6, 7, 2, 4, 5])],
  }),
  gather({
    shows: "an offset skips whole blocks; tokens past the table are zeros",
    inputs: [cache, cache, tables, lengths, of("int32", [2], [5, 0])],
    outputs: [of("float32", [5, 1, 1], [0, 1, 0, 4, 5]), of("float32", [5, 1, 1], [0, 1, 0, 4, 5])],
  }),
  gather({
    shows: "lengths that sum up",
    attrs: { is_seq_lens_cumsum: 1 },
    inputs: [cache, undefined, tables, of("int32", [3], [0, 3, 5])],
    outputs: [of("float32", [5, 1, 1], [6, 7, 2, 4, 5])],
  }),
  gather({
    shows: "a block past the cache is refused",
    inputs: [cache, undefined, of("int32", [1, 2], [1, 4]), of("int32", [1], [3])],
    throws: /block_tables\[0,1\] must lie in \[0, 3\], got 4/,
  }),
  gather({
    shows: "lengths that sum up must not fall",
    attrs: { is_seq_lens_cumsum: 1 },
    inputs: [cache, undefined, tables, of("int32", [3], [0, 3, 2])],
    throws: /must not fall, got 3 and then 2/,
  }),
  gather({
    shows: "values need their cache",
    inputs: [cache, undefined, tables, lengths],
    outputs: [cache, cache],
    throws: /the output value needs the input value_cache/,
  }),
];
