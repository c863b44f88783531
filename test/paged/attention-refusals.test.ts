// What a run over pages refuses: the error names sample, entry and rule, and nothing was written, not even by the step's own write.
import { expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { InferenceSession } from "../../src/entry/node.js";
import { ops } from "../../packages/functions/ops.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { pagedModel, type Sizes } from "./step-models.js";

const sizes: Sizes = {
  heads: 2,
  kvHeads: 1,
  size: 4,
  valueSize: 4,
  blockSize: 2,
  columns: 2,
  layout: "Norm",
  left: -1,
};
const blocks = 5;

const floats = (dims: readonly number[], from = 1): Tensor =>
  new Tensor(
    "float32",
    Float32Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, at) => from + at),
    dims,
  );
const int32 = (values: readonly number[], dims: readonly number[]): Tensor =>
  new Tensor("int32", Int32Array.from(values), dims);
const int64 = (values: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), [values.length]);

interface Step {
  readonly slots?: readonly number[];
  readonly tables?: readonly number[];
  readonly lengths?: readonly number[];
}

const feeds = ({ slots = [0, 8], tables = [0, 1, 4, 2], lengths = [1, 1] }: Step): Record<string, Tensor> => ({
  query: floats([2, 2, 1, 4]),
  key: floats([2, 1, 4], 50),
  value: floats([2, 1, 4], 70),
  slots: int64(slots),
  tables: int32(tables, [2, 2]),
  lengths: int32(lengths, [2]),
});

const refused: readonly (readonly [string, Step, RegExp])[] = [
  [
    "a table that points past the pool",
    { tables: [0, 1, 5, 2] },
    /PagedAttention.*block_tables\[1,0\] must lie in \[0, 4\], the blocks of the pool, since seq_lens\[1\] = 1 needs it; got 5/,
  ],
  [
    "a table that points before the pool",
    { tables: [-1, 1, 4, 2] },
    /block_tables\[0,0\] must lie in \[0, 4\].*got -1/,
  ],
  [
    "a length beyond the table",
    { lengths: [1, 5] },
    /seq_lens\[1\] must be at most the 4 rows of its table, 2 blocks of 2, got 5/,
  ],
  ["a negative length", { lengths: [-2, 1] }, /seq_lens\[0\] must not be negative, got -2/],
  ["a slot past the pool", { slots: [0, 10] }, /ScatterPaKvCache.*slot_mapping\[1\] must be below .* = 10, got 10/],
];

for (const backend of ["reference", "wasm"] as const)
  for (const [name, step, message] of refused)
    test(`${backend}: ${name}`, async () => {
      const options: SessionOptions = { backend, threads: 2 };
      const session = await InferenceSession.create(pagedModel(sizes), options);
      const shape = [blocks, 2, 1, 4];
      const state = session.createState({ shapes: { "past.key": shape, "past.value": shape } });
      for (const side of state.names) (state.get(side).data as Float32Array).fill(-7);
      // Once before anything is known of the step, once again when its places are.
      for (let round = 0; round < 2; round++) {
        const error = await session.run(feeds(step), { state }).catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(InsituError);
        expect((error as InsituError).message).toMatch(message);
        for (const side of state.names)
          expect((state.get(side).data as Float32Array).every((value) => value === (round === 0 ? -7 : value))).toBe(
            true,
          );
        if (round === 0) await session.run(feeds({}), { state });
      }
      const before = Array.from(state.get("past.key").data as Float32Array);
      await session.run(feeds(step), { state }).catch(() => {});
      expect(Array.from(state.get("past.key").data as Float32Array)).toEqual(before);
      await session.release();
    });

test("as functions: repackCache and quantizedScatterPaKvCache write nothing they refuse, and in place returns what was given", () => {
  const cache = floats([1, 3, 2]);
  const held = Array.from(cache.data as Float32Array);
  expect(() => ops.repackCache({ cache, rows: int32([2, 3], [1, 2]) }, { inPlace: true })).toThrow(
    /ops.repackCache: rows\[0,1\] must be -1, to leave the row as it is, or lie in \[0, 2\], got 3/,
  );
  expect(Array.from(cache.data as Float32Array)).toEqual(held);
  const moved = ops.repackCache({ cache, rows: int32([2], [1, 1]) });
  expect(Array.from(cache.data as Float32Array)).toEqual(held);
  expect(Array.from(moved.cache.data as Float32Array)).toEqual([5, 6, 3, 4, 5, 6]);
  expect(ops.repackCache({ cache, rows: int32([2], [1, 1]) }, { inPlace: true }).cache).toBe(cache);
  const pages = (): Tensor => new Tensor("int8", new Int8Array(8), [1, 2, 1, 4]);
  const scales = (): Tensor => new Tensor("float32", new Float32Array(2), [1, 2, 1]);
  const quantized = {
    key: floats([1, 1, 4]),
    keyCache: pages(),
    keyScale: scales(),
    value: floats([1, 1, 4]),
    valueCache: pages(),
    valueScale: scales(),
  };
  expect(() => ops.quantizedScatterPaKvCache({ ...quantized, slotMapping: int64([2]) }, { inPlace: true })).toThrow(
    /slot_mapping\[0\] must be below num_blocks \* block_size = 2, got 2/,
  );
  expect(Array.from(quantized.keyCache.data as Int8Array)).toEqual(new Array(8).fill(0));
  const written = ops.quantizedScatterPaKvCache({ ...quantized, slotMapping: int64([1]) }, { inPlace: true });
  expect(written.keyCache).toBe(quantized.keyCache);
  const { y, attentionSums } = ops.pagedAttention(
    {
      query: floats([1, 1, 1, 4], 0),
      keyCache: written.keyCache,
      valueCache: written.valueCache,
      blockTables: int32([0], [1, 1]),
      seqLens: int32([2], [1]),
      keyScale: written.keyScale,
      valueScale: written.valueScale,
    },
    { isCausal: true, attentionSums: true },
  );
  expect(y.dims).toEqual([1, 1, 1, 4]);
  expect((attentionSums!.data as Float32Array).reduce((a, b) => a + b, 0)).toBeCloseTo(1, 5);
});
