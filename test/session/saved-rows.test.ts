// What is saved of a state: the rows that were written, whatever the capacity, and nothing that is lost by that. The oracle is a state that ran
// straight through, on every backend; where rows can be written that nobody tells of, the caches to the bit.
import { describe, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { backends } from "../support/backends.js";
import { int64, step, tokenFeeds, tokens } from "../support/decoding.js";

/** Bytes of the caches alone. */
const contentBytes = (bytes: Uint8Array): number =>
  bytes.length - 8 - Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));

/** The same file as the version before wrote it. */
const asVersion1 = (bytes: Uint8Array): Uint8Array =>
  Uint8Array.from(
    Buffer.from(Buffer.from(bytes).toString("latin1").replace('"version":"2"', '"version":"1"'), "latin1"),
  );

const decoder = writeModel(generatedDecoder(smallSizes));

describe.each(backends)("on $name", ({ name, options }) => {
  test("bytes are those of the rows, and any capacity that has room goes on from them", async () => {
    const session = await InferenceSession.create(decoder, { ...options, backend: name });
    const create = (capacity: number, batch = 1): State => session.createState({ dims: { batch, capacity } });
    const [small, large, straight] = [create(16), create(400), create(64)];
    for (const state of [small, large, straight]) await step(session, state, tokens(0, 9));
    const saved = [await small.save(), await large.save()];
    expect(saved[0]).toEqual(saved[1]);
    const perRow = small.byteLength / 16;
    expect(contentBytes(saved[0])).toBe(9 * perRow);
    expect(contentBytes(await create(400).save())).toBe(0);
    const expected = [await step(session, straight, tokens(9, 11)), await step(session, straight, [3])];
    for (const capacity of [12, 400]) {
      const state = create(capacity);
      // What it held before is gone.
      await step(session, state, tokens(20, 32));
      await state.restore(saved[1]);
      expect(await state.save()).toEqual(saved[1]);
      expect([await step(session, state, tokens(9, 11)), await step(session, state, [3])]).toEqual(expected);
      // What was forgotten is not saved.
      state.rewind(4);
      expect(contentBytes(await state.fork().save())).toBe(4 * perRow);
    }
    await expect(create(8).restore(saved[1])).rejects.toThrow(/has 9 rows for cache .* room for 8: create the state/);

    // Samples of different lengths: as many rows as the longest has.
    const [batch, alone] = [create(40, 2), create(40, 2)];
    for (const state of [batch, alone]) {
      await session.run(tokenFeeds([tokens(0, 7), tokens(5, 12)], [0, 0]), { state });
      state.rewind([7, 3]);
    }
    const ragged = await batch.save();
    expect(contentBytes(ragged)).toBe(7 * 2 * perRow);
    const other = create(9, 2);
    await other.restore(ragged);
    expect(other.lengths).toEqual([7, 3]);
    const logits = async (state: State): Promise<unknown> =>
      (await session.run(tokenFeeds([[1], [2]], state.lengths), { state })).logits.data;
    expect(await logits(other)).toEqual(await logits(alone));
    await session.release();
  });
});

const types = ["float16", "int8", "float32", "bool"] as const;

/** Caches of several types; `how` says where their rows begin, or what lies between them and the write. */
const scattered = (how: "fed" | "circular" | "computed" | "viewed"): Model =>
  buildModel({
    opset: 24,
    inputs: [
      ...types.map((type) => value(type, type, ["batch", "capacity", 2])),
      ...types.map((type) => value(`${type}_rows`, type, ["batch", "sequence", 2])),
      value("write_indices", "int64", ["batch"]),
    ],
    outputs: types.map((type) => value(`${type}_present`, type, ["batch", "capacity", 2])),
    nodes: types.flatMap((type) => {
      const mode = how === "circular" ? "circular" : "linear";
      const scatter = (cache: string, output: string, start: string): ReturnType<typeof node> =>
        node("TensorScatter", [cache, `${type}_rows`, start], [output], { axis: 1, mode });
      if (how === "computed")
        return [
          node("Add", ["write_indices", "write_indices"], [`${type}_start`]),
          scatter(type, `${type}_present`, `${type}_start`),
        ];
      if (how === "viewed")
        return [
          node("Identity", [type], [`${type}_view`]),
          scatter(`${type}_view`, `${type}_present`, "write_indices"),
        ];
      return [scatter(type, `${type}_present`, "write_indices")];
    }),
  });

const rowFeeds = (from: number, count: number): Record<string, Tensor> => {
  const numbers = Array.from({ length: count * 2 }, (_, at) => from + at);
  const [dims, floats] = [[1, count, 2], Float32Array.from(numbers)];
  return {
    float16_rows: new Tensor(
      "float16",
      Uint16Array.from(numbers, (number) => 15_000 + number),
      dims,
    ),
    int8_rows: new Tensor("int8", Int8Array.from(numbers), dims),
    float32_rows: new Tensor("float32", floats, dims),
    bool_rows: new Tensor(
      "bool",
      Uint8Array.from(numbers, (number) => number & 1),
      dims,
    ),
  };
};

const open = async (
  how: Parameters<typeof scattered>[0],
): Promise<(capacity: number) => { state: State; add: (count: number, start?: number) => Promise<void> }> => {
  const session = await InferenceSession.create(writeModel(scattered(how)), { backend: "reference" });
  return (capacity) => {
    const state = session.createState({ dims: { batch: 1, capacity } });
    let written = 1;
    return {
      state,
      add: async (count, start) => {
        const feeds = {
          ...rowFeeds(written, count),
          ...(start === undefined ? {} : { write_indices: int64([start]) }),
        };
        await session.run(feeds, { state });
        written += 2 * count;
      },
    };
  };
};

const contents = (state: State): unknown => state.names.map((name) => state.get(name).data);

test.each(["fed", "circular", "computed", "viewed"] as const)("caches of four types, indices: %s", async (how) => {
  const create = await open(how);
  const { state, add } = create(16);
  await add(3, how === "computed" ? 0 : undefined);
  // Where rows are written that the state is not told of, or seen otherwise, all are saved.
  if (how === "computed") await add(2, 6);
  const bytes = await state.save();
  const perRow = 2 * (2 + 1 + 4 + 1);
  expect(contentBytes(bytes)).toBe((how === "fed" || how === "circular" ? 3 : 16) * perRow);
  const { state: again } = create(16);
  for (const name of again.names) again.set(name, again.get(name));
  for (const form of [bytes, asVersion1(bytes)]) {
    await again.restore(form);
    expect(contents(again)).toEqual(contents(state));
    expect(again.lengths).toEqual(state.lengths);
    expect(await again.save()).toEqual(bytes);
  }
});

test("rows that are written out of their order are saved too", async () => {
  const create = await open("fed");
  const { state, add } = create(16);
  await add(2, 9);
  await add(2, 4);
  expect(state.lengths).toEqual([6]);
  const { state: again } = create(11);
  await again.restore(await state.save());
  expect([again.lengths, await again.save()]).toEqual([[6], await state.save()]);
  const rows = (from: State): unknown => from.names.map((name) => from.get(name).data.slice(0, 22));
  expect(rows(again)).toEqual(rows(state));
});

test("what a caller sets, or writes into an array that was handed out, is saved", async () => {
  const create = await open("fed");
  const [{ state: set }, { state: lent }, { state: looked, add }] = [create(16), create(16), create(16)];
  set.set(
    "int8",
    new Tensor(
      "int8",
      Int8Array.from({ length: 32 }, (_, at) => at),
      [1, 16, 2],
    ),
  );
  (lent.get("float32").data as Float32Array)[31] = 7;
  for (const state of [set, lent]) {
    const { state: again } = create(16);
    await again.restore(await state.save());
    expect(contents(again)).toEqual(contents(state));
  }
  // Who only looks changes nothing.
  await add(3);
  const before = await looked.save();
  contents(looked);
  expect(await looked.save()).toEqual(before);
});

test("a ring that has come round goes on in one of its own size alone", async () => {
  const create = await open("circular");
  const { state, add } = create(4);
  await add(3);
  const early = await state.save();
  await add(3, 3);
  expect(state.lengths).toEqual([6]);
  const late = await state.save();
  expect(contentBytes(late)).toBe(4 * 16);
  await expect(create(8).state.restore(late)).rejects.toThrow(
    'the saved state has cache "float16" as a ring of 4 rows that has wrapped around, which one of 8 cannot continue',
  );
  const [{ state: same }, { state: wider }] = [create(4), create(8)];
  await same.restore(late);
  expect(contents(same)).toEqual(contents(state));
  await wider.restore(early);
  expect(wider.lengths).toEqual([3]);
});
