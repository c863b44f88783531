// Random reads of paged caches against a slow loop from the contract's formulas, and what the read refuses.
import { expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { gatherPaKvCache, type PagedLayout } from "../../packages/functions/paged.js";
import { seededRandom } from "../../src/graph/call.js";
import type { Tensor } from "../../src/tensor/tensor.js";
import { bitsOf, indices, tensorOf } from "./bits.js";
import { at, types, widths } from "./oracle.js";
import { soak } from "../support/soak.js";

const count = soak ? 2_000 : 200;
const firstSeed = Number(process.env["INSITU_SEED"] ?? 90_210_377);

/** out[start_b + j] for every token and element; 0 where the table has no more columns. */
function slowGather(
  layout: PagedLayout,
  cache: readonly number[],
  shape: readonly number[],
  width: number,
  tables: readonly (readonly number[])[],
  lengths: readonly number[],
  offsets: readonly number[] | undefined,
): number[] {
  const out: number[] = [];
  const BS = layout === "Norm" ? shape[1] : shape.at(-2)!;
  lengths.forEach((L, b) => {
    const q = Math.floor((offsets?.[b] ?? 0) / BS);
    for (let j = 0; j < L; j++) {
      const block = tables[b][q + Math.floor(j / BS)];
      const o = j % BS;
      if (layout === "PA_NZ") {
        const [NB, c] = [shape[0], 32 / width];
        const pieces = shape.slice(1, -2).reduce((x, y) => x * y, 1);
        for (let e = 0; e < pieces * c; e++)
          out.push(block === undefined ? 0 : cache[at([NB, pieces, BS, c], block, Math.floor(e / c), o, e % c)]);
        continue;
      }
      const [H, D] = [layout === "Norm" ? shape[2] : shape[1], shape[3]];
      for (let h = 0; h < H; h++)
        for (let d = 0; d < D; d++)
          out.push(
            block === undefined ? 0 : cache[layout === "Norm" ? at(shape, block, o, h, d) : at(shape, block, h, o, d)],
          );
    }
  });
  return out;
}

for (const [position, layout] of (["Norm", "PA_NZ", "NHSD"] as const).entries()) {
  test(`${layout}: ${count} random reads from seed ${firstSeed + position * 1_000_003}`, () => {
    for (let number = 0; number < count; number++) {
      const seed = firstSeed + position * 1_000_003 + number;
      const random = seededRandom(seed);
      const below = (most: number): number => Math.floor(random() * most);
      const index = Math.floor(number / types.length) % 2 === 0 ? "int32" : "int64";
      const [NB, BS, H, B, M] = [1 + below(5), 1 + below(4), 1 + below(3), below(4), 1 + below(4)];
      const tables = Array.from({ length: B }, () => Array.from({ length: M }, () => below(NB)));
      const lengths = Array.from({ length: B }, () => below(M * BS + 3));
      const offsets = random() < 0.5 ? Array.from({ length: B }, () => below(M * BS + 2)) : undefined;
      // Columns that no token needs may hold anything.
      tables.forEach((row, b) => {
        const used = Math.floor((offsets?.[b] ?? 0) / BS) + Math.ceil(lengths[b] / BS);
        for (let column = used; column < M; column++) if (random() < 0.3) row[column] = random() < 0.5 ? -1 : NB + 7;
      });
      const isSeqLensCumsum = random() < 0.5;
      let sum = 0;
      const given = isSeqLensCumsum ? [0, ...lengths.map((length) => (sum += length))] : lengths;
      const side = (type: (typeof types)[number]): { tensor: Tensor; expected: number[] } => {
        const c = 32 / widths[type]!;
        const D = layout === "PA_NZ" ? c * (1 + below(2)) : random() < 0.1 ? 300 : 1 + below(6);
        const shape =
          layout === "Norm"
            ? [NB, BS, H, D]
            : layout === "NHSD"
              ? [NB, H, BS, D]
              : random() < 0.2
                ? [NB, H, D / c, BS, c]
                : [NB, (H * D) / c, BS, c];
        const size = shape.reduce((x, y) => x * y, 1);
        const bits = Array.from({ length: size }, () => below(2 ** (8 * widths[type]!)));
        const expected = slowGather(layout, bits, shape, widths[type]!, tables, lengths, offsets);
        return { tensor: tensorOf(type, shape, bits), expected };
      };
      const [keys, values] = [side(types[number % types.length]), side(types[below(types.length)])];
      const { key, value } = gatherPaKvCache(
        {
          keyCache: keys.tensor,
          valueCache: values.tensor,
          blockTables: indices(index, [B, M], tables.flat()),
          seqLens: indices(index, [given.length], given),
          seqOffset: offsets && indices(index, [B], offsets),
        },
        { cacheMode: layout, isSeqLensCumsum },
      );
      expect(bitsOf(key), `seed ${seed}, keys`).toEqual(keys.expected);
      expect(bitsOf(value!), `seed ${seed}, values`).toEqual(values.expected);
    }
  });
}

const int = (shape: readonly number[], values: readonly number[]): Tensor => indices("int32", shape, values);
const zeros = (shape: readonly number[], type: (typeof types)[number] = "float16"): Tensor =>
  tensorOf(type, shape, new Array<number>(shape.reduce((x, y) => x * y, 1)).fill(0));

const good = {
  keyCache: zeros([4, 2, 1, 3]),
  valueCache: zeros([4, 2, 1, 2]),
  blockTables: int([2, 2], [0, 1, 2, 3]),
  seqLens: int([2], [3, 2]),
};

test.each<[string, Partial<Record<string, Tensor>>, object, RegExp]>([
  [
    "a block past the cache",
    { blockTables: int([2, 2], [0, 4, 2, 3]) },
    {},
    /block_tables\[0,1\] must lie in \[0, 3\], got 4/,
  ],
  ["a negative block", { blockTables: int([2, 2], [-1, 1, 2, 3]) }, {}, /block_tables\[0,0\] must lie in/],
  ["a negative length", { seqLens: int([2], [3, -2]) }, {}, /seq_lens\[1\] must not be negative, got -2/],
  ["a negative offset", { seqOffset: int([2], [0, -1]) }, {}, /seq_offset\[1\] must not be negative, got -1/],
  ["offsets for another batch", { seqOffset: int([1], [0]) }, {}, /seq_offset needs one entry a row of block_tables/],
  ["lengths for another batch", { seqLens: int([3], [1, 1, 1]) }, {}, /one row a sequence of seq_lens/],
  ["sums for another batch", {}, { isSeqLensCumsum: true }, /one more entry with is_seq_lens_cumsum/],
  ["sums that start late", { seqLens: int([3], [1, 2, 3]) }, { isSeqLensCumsum: true }, /must start with 0, got 1/],
  ["sums that fall", { seqLens: int([3], [0, 2, 1]) }, { isSeqLensCumsum: true }, /must not fall, got 2 and then 1/],
  ["caches of other blocks", { valueCache: zeros([3, 2, 1, 2]) }, {}, /same num_blocks/],
  ["caches of other block sizes", { valueCache: zeros([4, 3, 1, 2]) }, {}, /same block_size/],
  ["caches of other heads", { valueCache: zeros([4, 2, 2, 2]) }, {}, /same num_head/],
  [
    "a cache without slots",
    { keyCache: zeros([4, 0, 1, 3]), valueCache: zeros([4, 0, 1, 2]) },
    {},
    /must be at least 1/,
  ],
  ["a cache of three dimensions", { keyCache: zeros([4, 2, 3]) }, {}, /key_cache must have 4 dimensions/],
  ["PA_NZ of other pieces", {}, { cacheMode: "PA_NZ" }, /32 bytes of float16 as its last dimension/],
  ["a table of one dimension", { blockTables: int([2], [0, 1]) }, {}, /block_tables must have 2 dimensions/],
  [
    "indices of two types",
    { seqLens: indices("int64", [2], [1, 1]) },
    {},
    /seq_lens must have the type of the other operands of I/,
  ],
  ["an unknown mode", {}, { cacheMode: "ND" }, /"cache_mode" must be one of "Norm", "PA_NZ", "NHSD", got string ND/],
  [
    "more tokens than memory",
    { seqLens: indices("int32", [2], [2_000_000_000, 2_000_000_000]) },
    {},
    /cannot be allocated/,
  ],
])("refused: %s", (_name, change, options, message) => {
  const call = (): unknown => gatherPaKvCache({ ...good, ...change }, options);
  expect(call).toThrow(message);
  expect(call).toThrow(InsituError);
});

test("values may be left out", () => {
  const { key, value } = gatherPaKvCache({ ...good, valueCache: undefined });
  expect(key.dims).toEqual([5, 1, 3]);
  expect(value).toBeUndefined();
});
