// Models with paged caches: written, read back, planned and run with a state, in every layout; and what a run refuses.
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { gatherPaKvCache, type PagedLayout, scatterPaKvCache } from "../../packages/functions/paged.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import { backends } from "../support/backends.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { bitsOf, indices, tensorOf } from "./bits.js";

const [blocks, blockSize, heads, keySize, valueSize] = [6, 2, 2, 16, 32];

const modes: Record<PagedLayout, { cache_mode: string; scatter_mode: string }> = {
  Norm: { cache_mode: "Norm", scatter_mode: "None" },
  PA_NZ: { cache_mode: "PA_NZ", scatter_mode: "None" },
  NHSD: { cache_mode: "Norm", scatter_mode: "NHSD" },
};

const cacheShape = (layout: PagedLayout, size: number): readonly (number | string)[] =>
  ({
    Norm: ["num_blocks", blockSize, heads, size],
    PA_NZ: ["num_blocks", (heads * size) / 16, blockSize, 16],
    NHSD: ["num_blocks", heads, blockSize, size],
  })[layout];

/** Writes this step's keys and values and reads the sequences back: what a paged attention would see. */
function pagedModel(layout: PagedLayout): Model {
  const caches = ["key", "value"].map((name, at) => ({ name, shape: cacheShape(layout, [keySize, valueSize][at]) }));
  return buildModel({
    opset: { "": 24, insitu: 1 },
    inputs: [
      value("key", "float16", ["tokens", heads, keySize]),
      value("value", "float16", ["tokens", heads, valueSize]),
      ...caches.map(({ name, shape }) => value(`past.${name}`, "float16", shape)),
      value("slots", "int32", ["tokens"]),
      value("tables", "int32", ["batch", "columns"]),
      value("lengths", "int32", ["batch"]),
    ],
    outputs: [
      value("keys", "float16"),
      value("values", "float16"),
      ...caches.map(({ name, shape }) => value(`present.${name}`, "float16", shape)),
    ],
    nodes: [
      node(
        "ScatterPaKvCache",
        ["key", "past.key", "slots", "value", "past.value"],
        ["present.key", "present.value"],
        modes[layout],
        { name: "write", domain: "insitu" },
      ),
      node(
        "GatherPaKvCache",
        ["present.key", "present.value", "tables", "lengths"],
        ["keys", "values"],
        { cache_mode: layout },
        { name: "read", domain: "insitu" },
      ),
    ],
  });
}

const open = (layout: PagedLayout, options: SessionOptions = {}): Promise<InferenceSession> =>
  InferenceSession.create(writeModel(pagedModel(layout)), { backend: "reference", ...options });

const int = (shape: readonly number[], values: readonly number[]): Tensor => indices("int32", shape, values);

const rows = (tokens: number, size: number, from: number): Tensor =>
  tensorOf(
    "float16",
    [tokens, heads, size],
    Array.from({ length: tokens * heads * size }, (_, i) => (from + i) & 0x7bff),
  );

const tables = int([2, 3], [4, 0, 2, 5, 1, 3]);

/** A prompt of 3 and 1 tokens, then one token for each sequence. */
const steps = [
  { slots: [8, 9, 0, 10], lengths: [3, 1] },
  { slots: [1, 11], lengths: [4, 2] },
  { slots: [4, 2], lengths: [5, 3] },
].map(({ slots, lengths }, at) => ({
  key: rows(slots.length, keySize, 1000 * at),
  value: rows(slots.length, valueSize, 5000 + 1000 * at),
  slots: int([slots.length], slots),
  tables,
  lengths: int([2], lengths),
}));

for (const layout of ["Norm", "PA_NZ", "NHSD"] as const) {
  test(`${layout}: the model is the same after it is written and read back`, () => {
    const bytes = writeModel(pagedModel(layout));
    expect(writeModel(readModel(bytes))).toEqual(bytes);
    const [write] = readModel(bytes).graph.nodes;
    expect(write).toMatchObject({ opType: "ScatterPaKvCache", domain: "insitu" });
  });

  test(`${layout}: both caches are planned in place`, async () => {
    const session = await open(layout, { inPlace: "require" });
    const { caches, states } = session.explain({ json: true });
    expect(caches).toEqual(
      ["key", "value"].map((name) => ({
        node: "write",
        op: "ScatterPaKvCache",
        input: `past.${name}`,
        output: `present.${name}`,
        inPlace: true,
        reason: "nothing else reads the old value",
      })),
    );
    expect(states.map(({ input, output, kind }) => [input, output, kind])).toEqual([
      ["past.key", "present.key", "update"],
      ["past.value", "present.value", "update"],
    ]);
    expect(session.explain()).toMatch(/write +ScatterPaKvCache .*writes past\.key in place/);
  });

  test(`${layout}: steps on a state equal the functions, in place and copying`, async () => {
    const ways = backends.flatMap(({ name: backend }) =>
      (["require", "prefer", "never"] as const).map((inPlace) => ({ backend, inPlace })),
    );
    for (const { backend, inPlace } of ways) {
      const session = await open(layout, { backend, inPlace });
      const state = session.createState({ dims: { num_blocks: blocks } });
      const held = ["past.key", "past.value"].map((name) => state.get(name));
      let [keyCache, valueCache] = held.map((cache) =>
        tensorOf("float16", cache.dims, new Array<number>(cache.size).fill(0)),
      );
      const functional = { keyCache, valueCache };
      for (const step of steps) {
        const found = await session.run(step, { state });
        ({ keyCache, valueCache } = scatterPaKvCache(
          { key: step.key, value: step.value, slotMapping: step.slots, keyCache, valueCache },
          {
            cacheMode: modes[layout].cache_mode as "Norm" | "PA_NZ",
            scatterMode: modes[layout].scatter_mode as "None" | "NHSD",
          },
        ) as { keyCache: Tensor; valueCache: Tensor });
        const expected = gatherPaKvCache(
          { keyCache, valueCache, blockTables: step.tables, seqLens: step.lengths },
          { cacheMode: layout },
        );
        expect(bitsOf(found["keys"])).toEqual(bitsOf(expected.key));
        expect(bitsOf(found["values"])).toEqual(bitsOf(expected.value!));
        expect(bitsOf(await onHost(state.get("past.key")))).toEqual(bitsOf(keyCache));
        expect(bitsOf(await onHost(state.get("past.value")))).toEqual(bitsOf(valueCache));
        // Without a state the same run leaves its feeds alone.
        const fed = await session.run({
          ...step,
          "past.key": functional.keyCache,
          "past.value": functional.valueCache,
        });
        expect(bitsOf(fed["present.key"])).toEqual(bitsOf(keyCache));
        expect(bitsOf(functional.keyCache)).not.toEqual(bitsOf(keyCache));
        Object.assign(functional, { keyCache, valueCache });
      }
      expect(state.statistics.movedBytes).toBe(inPlace === "never" ? 3 * state.byteLength : 0);
      if (inPlace !== "never" && held[0].location === "cpu") expect(state.get("past.key").data).toBe(held[0].data);
      await session.release();
    }
  });
}

/** What a cache holds, wherever it lies. */
const onHost = async (cache: Tensor): Promise<Tensor> => new Tensor(cache.type, await cache.getData(), cache.dims);

test("a run whose slots are wrong leaves the state as it was", async () => {
  const session = await open("Norm", { inPlace: "require" });
  const state = session.createState({ dims: { num_blocks: blocks } });
  await session.run(steps[0], { state });
  const before = state.names.map((name) => bitsOf(state.get(name)));
  const wrong = { ...steps[1], slots: int([2], [3, blocks * blockSize]) };
  await expect(session.run(wrong, { state })).rejects.toThrow(
    /ScatterPaKvCache "write": slot_mapping\[1\] must be below num_blocks \* block_size = 12, got 12/,
  );
  expect(state.names.map((name) => bitsOf(state.get(name)))).toEqual(before);
});

test("the checks of every layer come before the first layer's write", async () => {
  const shape = [2, 2, 1, 4];
  const layer = (at: number): ReturnType<typeof node> =>
    node(
      "ScatterPaKvCache",
      ["key", `past.${at}`, `slots.${at}`],
      [`present.${at}`],
      {},
      {
        name: `write.${at}`,
        domain: "insitu",
      },
    );
  const model = buildModel({
    opset: { "": 24, insitu: 1 },
    inputs: [
      value("key", "int8", [1, 1, 4]),
      ...[0, 1].flatMap((at) => [value(`past.${at}`, "int8", shape), value(`slots.${at}`, "int64", [1])]),
    ],
    outputs: [0, 1].map((at) => value(`present.${at}`, "int8", shape)),
    nodes: [layer(0), layer(1)],
  });
  const session = await InferenceSession.create(writeModel(model), { backend: "reference", inPlace: "require" });
  const state = session.createState();
  const key = tensorOf("int8", [1, 1, 4], [1, 2, 3, 4]);
  const at = (slot: number): Tensor => indices("int64", [1], [slot]);
  await expect(session.run({ key, "slots.0": at(0), "slots.1": at(9) }, { state })).rejects.toThrow(/"write\.1"/);
  for (const name of state.names) expect(bitsOf(state.get(name)).every((bits) => bits === 0)).toBe(true);
  await session.run({ key, "slots.0": at(0), "slots.1": at(3) }, { state });
  expect(bitsOf(state.get("past.1")).slice(12)).toEqual([1, 2, 3, 4]);
});

test("a model that breaks a rule of shapes is refused when it is loaded", async () => {
  const shape = ["num_blocks", 2, 1, 4];
  const model = (heads_: number, attributes: Parameters<typeof node>[3]): Uint8Array =>
    writeModel(
      buildModel({
        opset: { "": 24, insitu: 1 },
        inputs: [
          value("key", "int8", ["tokens", heads_, 4]),
          value("past", "int8", shape),
          value("slots", "int64", ["tokens"]),
        ],
        outputs: [value("present", "int8", shape)],
        nodes: [
          node("ScatterPaKvCache", ["key", "past", "slots"], ["present"], attributes, { name: "w", domain: "insitu" }),
        ],
      }),
    );
  const load = (bytes: Uint8Array): Promise<unknown> => InferenceSession.create(bytes, { backend: "reference" });
  await expect(load(model(2, {}))).rejects.toThrow(/ScatterPaKvCache "w": key_cache .* must have the num_head of key/);
  await expect(load(model(1, { cache_mode: "PA_NZ" }))).rejects.toThrow(/without value and value_cache/);
  await expect(load(model(1, { scatter_mode: "Ring" }))).rejects.toThrow(/must be one of "None", "Nct"/);
  await expect(load(model(1, {}))).resolves.toBeDefined();
});

test("compressed modes run in a graph too", async () => {
  const model = buildModel({
    opset: { "": 24, insitu: 1 },
    inputs: [
      value("rows", "float32", ["tokens", 2, 1]),
      value("past.key", "float32", [3, 4, 1, 1]),
      value("past.value", "float32", [3, 4, 1, 1]),
      ...["slots", "windows", "starts"].map((name) => value(name, "int32", ["runs"])),
      value("lengths", "int32", ["batch"]),
    ],
    outputs: [value("present.key", "float32"), value("present.value", "float32")],
    nodes: [
      node(
        "ScatterPaKvCache",
        ["rows", "past.key", "slots", "rows", "past.value", "windows", "starts", "lengths"],
        ["present.key", "present.value"],
        { scatter_mode: "Rope" },
        { name: "write", domain: "insitu" },
      ),
    ],
  });
  const session = await InferenceSession.create(writeModel(model), { backend: "reference", inPlace: "require" });
  const state = session.createState();
  const numbers = Float32Array.from({ length: 14 }, (_, i) => 10 * Math.floor(i / 2) + (i % 2));
  const feeds = {
    rows: tensorOf("float32", [7, 2, 1], Array.from(new Uint32Array(numbers.buffer))),
    slots: int([4], [0, 3, 7, 9]),
    windows: int([4], [2, 0, 2, 5]),
    starts: int([4], [1, 0, 1, -1]),
    lengths: int([2], [4, 3]),
  };
  await session.run(feeds, { state });
  expect([...(state.get("past.key").data as Float32Array)]).toEqual([0, 15, 30, 1, 11, 21, 31, 40, 55, 41, 51, 61]);
  await expect(session.run({ ...feeds, lengths: int([2], [4, 4]) }, { state })).rejects.toThrow(/sum to the tokens/);
});
