// Decoders whose caches have a capacity, below programs that know only caches that grow: what transformers.js 4.3 feeds, to the letter, without
// it. The oracle is the same model with a state, straight through.
import { describe, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession, rewrite } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { backends } from "../support/backends.js";
import { int64, tokenFeeds } from "../support/decoding.js";
import { exportedBytes } from "../support/exported-decoders.js";
import { soak } from "../support/soak.js";

const models = {
  generated: writeModel(generatedDecoder(smallSizes)),
  exported: (await rewrite(exportedBytes("llama_op24"))).model,
};
const lengths = ["write_indices", "nonpad_kv_seqlen"];

type Tensors = Record<string, Tensor>;

/** What transformers.js does between two tokens: addPastKeyValues, pick, validateInputs, getPastKeyValues. */
class GrowingProgram {
  readonly session: InferenceSession;
  readonly #presents: ReadonlyMap<string, string>;
  pasts: Tensors | undefined;
  rows = 0;

  constructor(session: InferenceSession) {
    this.session = session;
    this.#presents = new Map(session.heldInputs.map(({ input, output }) => [input, output]));
  }

  /** Pasts of no rows: of the symbols that files have, it knows `batch_size` alone. */
  #empty(batch: number): Tensors {
    const symbols: Readonly<Record<string, number>> = { batch_size: batch };
    const caches = this.session.inputMetadata.filter(({ name }) => this.#presents.has(name));
    return Object.fromEntries(
      caches.map(({ name, shape }) => {
        const dims = shape.map((dim) => (typeof dim === "number" ? dim : (symbols[dim] ?? 0)));
        return [name, new Tensor("float32", new Float32Array(dims.reduce((a, b) => a * b, 1)), dims)];
      }),
    );
  }

  async run(tokens: readonly (readonly number[])[], pasts = this.pasts, rows = this.rows): Promise<Float32Array> {
    const [batch, count] = [tokens.length, tokens[0].length];
    const all: Tensors = {
      ...tokenFeeds(
        tokens,
        tokens.map(() => rows),
      ),
      attention_mask: int64(new Array<number>(batch * (rows + count)).fill(1), [batch, rows + count]),
      ...(pasts ?? this.#empty(batch)),
    };
    const missing = this.session.inputNames.filter((name) => !(name in all));
    if (missing.length > 0) throw new Error(`Missing the following inputs: ${missing.join(", ")}.`);
    const results = await this.session.run(
      Object.fromEntries(this.session.inputNames.map((name) => [name, all[name]])),
    );
    this.pasts = Object.fromEntries([...this.#presents].map(([input, output]) => [input, results[output]]));
    this.rows = rows + count;
    for (const [input, tensor] of Object.entries(this.pasts)) {
      const { axis } = this.session.heldInputs.find((held) => held.input === input)!;
      expect([tensor.dims[0], tensor.dims[axis!]]).toEqual([batch, this.rows]);
    }
    return (await results["logits"].getData()) as Float32Array;
  }
}

const asOnnxruntime = (backend: string, more: SessionOptions = {}): SessionOptions => ({
  executionProviders: [backend],
  logSeverityLevel: 3,
  ...more,
});

/** Shaders that a program runs are slow: of those the tests have one sample, and the soak the rest. */
describe.each(Object.entries(models))("%s", (kind, model) => {
  const isSampled = (backend: string, presents: string): boolean =>
    soak || backend !== "webgpu" || (kind === "generated" && presents === "keep");
  const ways = backends.flatMap(({ name }) => (["keep", "copy"] as const).map((presents) => [name, presents] as const));
  test.each(ways.filter((way) => isSampled(...way)))("on %s, presents: %s", async (backend, presents) => {
    const straight = await InferenceSession.create(model, { backend, inPlace: "require" });
    const session = await InferenceSession.create(model, asOnnxruntime(backend, { presents }));
    expect(session.inputNames.filter((name) => lengths.includes(name))).toEqual([]);
    const batches = soak || backend !== "webgpu" ? [1, 2] : [1];
    for (const batch of batches) {
      const program = new GrowingProgram(session);
      const state = straight.createState({ dims: { batch, capacity: 40 } });
      const both = async (tokens: readonly (readonly number[])[]): Promise<void> => {
        const feeds = tokenFeeds(tokens, state.lengths);
        const { logits } = await straight.run(feeds, { state });
        const actual = await program.run(tokens);
        expect(actual).toEqual(await logits.getData());
      };
      const rowsOf = (from: number, count: number): number[][] =>
        Array.from({ length: batch }, (__, sample) =>
          Array.from({ length: count }, (___, at) => (from + at * 5 + sample) % 50),
        );
      await both(rowsOf(3, 5));
      const [pasts, { rows }] = [program.pasts!, program];
      for (const [from, count] of [
        [7, 1],
        [9, 1],
        [11, 3],
      ])
        await both(rowsOf(from, count));
      // From presents that were left on the way, and from copies of them.
      state.rewind(rows);
      [program.pasts, program.rows] = [pasts, rows];
      await both(rowsOf(20, 2));
      state.rewind(rows);
      const copies = await Promise.all(
        Object.entries(pasts).map(async ([name, tensor]) => [
          name,
          new Tensor("float32", (await tensor.getData()) as Float32Array, tensor.dims),
        ]),
      );
      [program.pasts, program.rows] = [Object.fromEntries(copies) as Tensors, rows];
      await both(rowsOf(30, 2));
      await both(rowsOf(31, 1));
    }
    const told = session.explain({ json: true }).presents;
    if (presents === "copy") expect(told).toBeUndefined();
    else {
      expect(told).toMatchObject({
        kept: true,
        runs: { started: batches.length, imported: batches.length, copied: 0 },
      });
      // Rows that nobody shows any more, once the collector has seen to it, need no fork.
      const { continued = 0, forked = 0 } = told?.kept === true ? told.runs : {};
      expect([continued + forked, forked <= batches.length]).toEqual([5 * batches.length, true]);
    }
    await Promise.all([straight.release(), session.release()]);
  });
});

describe("what stays as it is", () => {
  const open = (options: SessionOptions = {}): Promise<InferenceSession> =>
    InferenceSession.create(models.generated, { backend: "reference", ...options });

  test("sessions that were asked for in insitu's own words name every input, and tell nothing of presents before such a run", async () => {
    const session = await open();
    expect(session.inputNames).toEqual(expect.arrayContaining(lengths));
    expect(session.inputMetadata.map(({ name }) => name)).toEqual(session.inputNames);
    expect(session.explain({ json: true }).presents).toBeUndefined();
    await session.release();
  });

  test("lengths that are fed mean caches of a capacity, on any session", async () => {
    const results = [];
    for (const session of [await open(), await InferenceSession.create(models.generated, asOnnxruntime("reference"))]) {
      const state = session.createState({ dims: { batch: 1, capacity: 8 } });
      const pasts = Object.fromEntries(state.names.map((name) => [name, state.get(name)]));
      const feeds = { ...tokenFeeds([[4, 5]], [0]), ...pasts };
      const given = { write_indices: int64([0]), nonpad_kv_seqlen: int64([2]) };
      results.push(await session.run({ ...feeds, ...given }));
      expect(results.at(-1)![session.heldInputs[0].output].dims).toEqual([1, 8, 16]);
      await expect(session.run({ ...feeds, write_indices: int64([0]) })).rejects.toThrow(
        /input "nonpad_kv_seqlen" .* is missing/,
      );
    }
    expect(results[0]).toEqual(results[1]);
  });

  test("a model whose lengths sizes do not tell must be fed them", async () => {
    // Nothing says how many rows may be read; a ring; a capacity that is the file's; a mask that is as long as the caches.
    const others = [
      { mode: "linear", capacity: "capacity", end: false },
      { mode: "circular", capacity: "capacity", end: true },
      { mode: "linear", capacity: 8, end: true },
      { mode: "linear", capacity: "capacity", end: true, mask: "mask" },
    ] as const;
    for (const { mode, capacity, end, ...more } of others) {
      const mask = "mask" in more ? more.mask : "";
      const bytes = writeModel(
        buildModel({
          opset: 24,
          inputs: [
            value("past", "float32", ["batch", capacity, 4]),
            value("rows", "float32", ["batch", "sequence", 4]),
            value("write_indices", "int64", ["batch"]),
            value("nonpad_kv_seqlen", "int64", ["batch"]),
            ...(mask === "" ? [] : [value(mask, "bool", [1, capacity])]),
          ],
          outputs: [
            value("out", "float32"),
            value("present", "float32", ["batch", capacity, 4]),
            ...(end ? [] : [value("sum", "float32")]),
          ],
          nodes: [
            node("TensorScatter", ["past", "rows", "write_indices"], ["present"], { axis: 1, mode }),
            node("Attention", ["rows", "present", "present", mask, "", "", "nonpad_kv_seqlen"], ["out"], {
              q_num_heads: 1,
              kv_num_heads: 1,
            }),
            ...(end ? [] : [node("ReduceSum", ["present"], ["sum"])]),
          ],
        }),
      );
      const session = await InferenceSession.create(
        bytes,
        asOnnxruntime("reference", { graphOptimizationLevel: "disabled" }),
      );
      expect(session.inputNames).toEqual(expect.arrayContaining(lengths));
      const feeds = {
        past: new Tensor("float32", new Float32Array(32), [1, 8, 4]),
        rows: new Tensor("float32", new Float32Array(4), [1, 1, 4]),
      };
      await expect(session.run(feeds)).rejects.toThrow(/is missing/);
    }
  });

  test("padding is refused, since nothing could hide its rows", async () => {
    const session = await InferenceSession.create(models.generated, asOnnxruntime("reference"));
    const program = new GrowingProgram(session);
    await program.run([
      [1, 2],
      [3, 4],
    ]);
    const { names } = session.createState({ dims: { batch: 2, capacity: 4 } });
    const pasts = Object.fromEntries(names.map((name) => [name, new Tensor("float32", [], [2, 0, 16])]));
    // As transformers.js counts positions from a mask that has padding on the left.
    const feeds = {
      ...tokenFeeds(
        [
          [1, 2, 3],
          [0, 0, 4],
        ],
        [0, 0],
      ),
      position_ids: int64([0, 1, 2, 1, 1, 0], [2, 3]),
      ...pasts,
    };
    await expect(session.run(feeds)).rejects.toThrow(
      /input "position_ids" must increase by one, alike in every sample, if lengths are not given, got 1 at \[1,0\]: run padded prompts/,
    );
    await session.release();
  });
});
