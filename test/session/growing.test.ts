// Caches that grow: Attention's and GroupQueryAttention's past → present inside a reserve, and Concat's, which is made anew.
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { readArchive } from "../../scripts/archive.mjs";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { seededRandom } from "../../src/graph/call.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { int64 } from "../support/decoding.js";

const random = seededRandom(5);
const noise = (dims: readonly number[]): Tensor =>
  new Tensor(
    "float32",
    Float32Array.from({ length: dims.reduce((a, b) => a * b, 1) }, () => random() - 0.5),
    dims,
  );

/** Attention with its cache inside. */
function attentionModel(): Model {
  const cache = (name: string): ReturnType<typeof value> =>
    value(name, "float32", ["batch", 2, name.startsWith("past") ? "past" : "total", 8]);
  return buildModel({
    opset: 24,
    inputs: [
      value("q", "float32", ["batch", 4, "sequence", 8]),
      value("k", "float32", ["batch", 2, "sequence", 8]),
      value("v", "float32", ["batch", 2, "sequence", 8]),
      cache("past_key"),
      cache("past_value"),
    ],
    outputs: [value("y", "float32"), cache("present_key"), cache("present_value")],
    nodes: [
      node(
        "Attention",
        ["q", "k", "v", "", "past_key", "past_value"],
        ["y", "present_key", "present_value"],
        { is_causal: 1 },
        { name: "attend" },
      ),
    ],
  });
}

/** GroupQueryAttention, as published models use it. */
function groupQueryModel(): Model {
  const cache = (name: string): ReturnType<typeof value> =>
    value(name, "float32", ["batch", 2, name.startsWith("past") ? "past" : "total", 8]);
  return buildModel({
    opset: { "": 21, "com.microsoft": 1 },
    inputs: [
      value("q", "float32", ["batch", "sequence", 32]),
      value("k", "float32", ["batch", "sequence", 16]),
      value("v", "float32", ["batch", "sequence", 16]),
      cache("past_key"),
      cache("past_value"),
      value("seqlens_k", "int32", ["batch"]),
      value("total_sequence_length", "int32", []),
    ],
    outputs: [value("y", "float32"), cache("present_key"), cache("present_value")],
    nodes: [
      node(
        "GroupQueryAttention",
        ["q", "k", "v", "past_key", "past_value", "seqlens_k", "total_sequence_length"],
        ["y", "present_key", "present_value"],
        { num_heads: 4, kv_num_heads: 2 },
        { name: "attend", domain: "com.microsoft" },
      ),
    ],
  });
}

type Rows = (length: number, total: number) => Record<string, Tensor>;

const attentionRows: Rows = (length) => ({
  q: noise([1, 4, length, 8]),
  k: noise([1, 2, length, 8]),
  v: noise([1, 2, length, 8]),
});

const groupQueryRows: Rows = (length, total) => ({
  q: noise([1, length, 32]),
  k: noise([1, length, 16]),
  v: noise([1, length, 16]),
  seqlens_k: new Tensor("int32", [total - 1], [1]),
  total_sequence_length: new Tensor("int32", [total], []),
});

for (const [name, model, rows] of [
  ["Attention", attentionModel(), attentionRows],
  ["GroupQueryAttention", groupQueryModel(), groupQueryRows],
] as const) {
  describe(`${name}'s own cache`, () => {
    test("runs in place inside the reserve and equals the functional run", async () => {
      const session = await InferenceSession.create(writeModel(model), { inPlace: "require" });
      const state = session.createState({ dims: { batch: 1, capacity: 32 } });
      const buffer = state.get("past_key").data;
      let carried: Record<string, Tensor> = { past_key: noise([1, 2, 0, 8]), past_value: noise([1, 2, 0, 8]) };
      let total = 0;
      for (const length of [5, 1, 1, 3, 1]) {
        total += length;
        const feeds = rows(length, total);
        const { y } = await session.run(feeds, { state });
        const functional = await session.run({ ...feeds, ...carried });
        expect(y.data).toEqual(functional["y"].data);
        carried = { past_key: functional["present_key"], past_value: functional["present_value"] };
        expect(state.lengths).toEqual([total]);
      }
      expect(state.get("past_key").data).toBe(buffer);
      expect(state.statistics.movedBytes).toBe(0);
      expect(session.explain({ json: true }).caches.map(({ inPlace }) => inPlace)).toEqual([true, true]);
    });

    test("a full reserve doubles, which is reported, and is refused under require", async () => {
      const session = await InferenceSession.create(writeModel(model), { inPlace: "prefer" });
      const [small, large] = [
        session.createState({ dims: { batch: 1, capacity: 2 } }),
        session.createState({ dims: { batch: 1, capacity: 64 } }),
      ];
      let total = 0;
      for (const length of [2, 1, 1, 1]) {
        total += length;
        const feeds = rows(length, total);
        expect((await session.run(feeds, { state: small }))["y"].data).toEqual(
          (await session.run(feeds, { state: large }))["y"].data,
        );
      }
      expect(small.statistics.movedBytes).toBeGreaterThan(0);
      expect(large.statistics.movedBytes).toBe(0);
      expect(small.get("past_key").dims).toEqual([1, 2, 8, 8]);
      const strict = await InferenceSession.create(writeModel(model), { inPlace: "require" });
      const tight = strict.createState({ dims: { batch: 1, capacity: 2 } });
      await expect(strict.run(rows(3, 3), { state: tight })).rejects.toThrow(
        /cache "past_key": 3 rows exceed the reserve of 2/,
      );
    });

    test("rewind, fork and save keep to the valid rows", async () => {
      const session = await InferenceSession.create(writeModel(model));
      const state = session.createState({ dims: { batch: 1, capacity: 16 } });
      await session.run(rows(4, 4), { state });
      const saved = await state.save();
      const child = state.fork();
      const [wrong, right] = [rows(1, 5), rows(1, 5)];
      await session.run(wrong, { state });
      state.rewind(4);
      const expected = await session.run(right, { state: child });
      expect((await session.run(right, { state }))["y"].data).toEqual(expected["y"].data);
      const resumed = session.createState({ dims: { batch: 1, capacity: 16 } });
      await resumed.restore(saved);
      expect(resumed.lengths).toEqual([4]);
      expect((await session.run(right, { state: resumed }))["y"].data).toEqual(expected["y"].data);
    });
  });
}

describe("a decoder whose caches grow by Concat", () => {
  test("a state gives what feeding past and present by hand gives, and says that it copies", async () => {
    const files = readArchive(fileURLToPath(new URL("../models/decoders.tar.br", import.meta.url))) as Map<
      string,
      Uint8Array
    >;
    const session = await InferenceSession.create(files.get("llama_op24/model.onnx")!);
    const state = session.createState({ dims: { batch: 1 } });
    let past: Record<string, Tensor> = Object.fromEntries(
      state.names.map((name) => [name, new Tensor("float32", new Float32Array(0), [1, 2, 0, 16])]),
    );
    let total = 0;
    for (const tokens of [[5, 6, 7], [8], [9]]) {
      const positions = tokens.map((_, index) => total + index);
      total += tokens.length;
      const feeds = {
        input_ids: int64(tokens, [1, tokens.length]),
        attention_mask: int64(new Array<number>(total).fill(1), [1, total]),
        position_ids: int64(positions, [1, tokens.length]),
      };
      const held = await session.run(feeds, { state });
      const fed = await session.run({ ...feeds, ...past });
      expect(held["logits"].data).toEqual(fed["logits"].data);
      expect(Object.keys(held)).toEqual(["logits"]);
      past = Object.fromEntries(state.names.map((name) => [name, fed[name.replace("past_key_values", "present")]]));
    }
    expect(state.lengths).toEqual([5]);
    expect(state.statistics.movedBytes).toBeGreaterThan(0);
    await expect(InferenceSession.create(files.get("llama_op24/model.onnx")!, { inPlace: "require" })).rejects.toThrow(
      /Concat makes a new tensor each time/,
    );
  });
});
