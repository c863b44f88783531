// What a decoder's token binds on a GPU that binds no more than WebGPU's 8 buffers at once: norms, rotary embedding, writes and attention of a layer go
// into dispatches of their own kind, on caches and on pages. Tables and norms lie on the device once, however many layers read them.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { buildModel, float, initializer, node, value } from "../../src/onnx/build.js";
import type { ModelNode, ModelTensor } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { noWebgpu } from "../support/backends.js";
import { largestDifference } from "../support/compare.js";
import { int64 } from "../support/decoding.js";
import { offeringGpu, PlacedSession } from "../support/gpu.js";
import { soak } from "../support/soak.js";

const [heads, shared, size, positions] = [4, 2, 8, 1 << 16];
const width = (heads + 2 * shared) * size;
/** Of cosines and sines together. */
const tableBytes = 2 * positions * (size / 2) * 4;
const [blocks, blockSize] = [24, 16];

const numbers = (seed: number, count: number): Float32Array => {
  const random = seededRandom(seed);
  return Float32Array.from({ length: count }, () => random() - 0.5);
};

/** Layers of an attention and a product each, that have their tables in common; one has the same weights in both norms. */
function layered(layers: number, cache: "linear" | "paged"): Uint8Array {
  const nodes: ModelNode[] = [];
  const initializers: ModelTensor[] = [];
  const weight = (name: string, ...shape: number[]): string => {
    const count = shape.reduce((product, dim) => product * dim, 1);
    initializers.push(initializer(name, "float32", numbers(initializers.length + 1, count), shape));
    return name;
  };
  const tables = [weight("cos", positions, size / 2), weight("sin", positions, size / 2)];
  const isPaged = cache === "paged";
  const shape = isPaged ? [blocks, shared, blockSize, size] : ["batch", shared, "capacity", size];
  const pages = isPaged ? ["slot_mapping", "block_tables", "seq_lens"] : [];
  const places = isPaged ? ["", ""] : ["write_indices", "nonpad_kv_seqlen"];
  let rows = "rows";
  const caches = Array.from({ length: layers }, (_, layer) => [`${layer}.key`, `${layer}.value`]).flat();
  for (let layer = 0; layer < layers; layer++) {
    const norms = [
      weight(`${layer}.query_norm`, size),
      layer === 0 ? "0.query_norm" : weight(`${layer}.key_norm`, size),
    ];
    const pasts = [`past.${layer}.key`, `past.${layer}.value`];
    const inputs = [rows, "", "", ...pasts, ...places, ...tables, "position_ids", ...norms, ...pages];
    const outputs = [`${layer}.attended`, `present.${layer}.key`, `present.${layer}.value`];
    const attributes = {
      q_num_heads: heads,
      kv_num_heads: shared,
      head_size: size,
      is_causal: 1,
      scale: float(0.3),
      rotary_embedding_dim: size,
      ...(isPaged ? { cache_mode: "NHSD" } : { axis: 2 }),
    };
    nodes.push(node("CachedAttention", inputs, outputs, attributes, { name: `${layer}.attention`, domain: "insitu" }));
    const product = [`${layer}.attended`, weight(`${layer}.weight`, heads * size, width)];
    nodes.push(node("MatMul", product, [(rows = `${layer}.rows`)], {}, { name: `${layer}.product` }));
  }
  return writeModel(
    buildModel({
      opset: { "": 24, insitu: 1 },
      inputs: [
        value("rows", "float32", ["batch", "sequence", width]),
        value("position_ids", "int64", ["batch", "sequence"]),
        ...(isPaged
          ? [
              value("slot_mapping", "int64", ["tokens"]),
              value("block_tables", "int64", ["batch", "columns"]),
              value("seq_lens", "int64", ["batch"]),
            ]
          : [value("write_indices", "int64", ["batch"]), value("nonpad_kv_seqlen", "int64", ["batch"])]),
        ...caches.map((name) => value(`past.${name}`, "float32", shape)),
      ],
      outputs: [value(rows, "float32"), ...caches.map((name) => value(`present.${name}`, "float32"))],
      nodes,
      initializers,
    }),
  );
}

/** The feeds of a step: so many tokens for samples that have some rows already. Samples have blocks in turn. */
function feedsOf(cache: "linear" | "paged", before: readonly number[], length: number): Record<string, Tensor> {
  const batch = before.length;
  const after = before.map((count) => count + length);
  const each = <T>(of: (sample: number, at: number) => T): T[] =>
    before.flatMap((_, sample) => Array.from({ length }, (_, at) => of(sample, at)));
  const rows = new Tensor("float32", numbers(before[0] + 99, batch * length * width), [batch, length, width]);
  const position_ids = int64(
    each((sample, at) => before[sample] + 7 * sample + at),
    [batch, length],
  );
  if (cache === "linear") return { rows, position_ids, write_indices: int64(before), nonpad_kv_seqlen: int64(after) };
  const columns = Math.floor(blocks / batch);
  const blockOf = (sample: number, column: number): number => column * batch + sample;
  const slots = each((sample, at) => {
    const row = before[sample] + at;
    return blockOf(sample, Math.floor(row / blockSize)) * blockSize + (row % blockSize);
  });
  const tables = before.flatMap((_, sample) => Array.from({ length: columns }, (_, column) => blockOf(sample, column)));
  return {
    rows,
    position_ids,
    slot_mapping: int64(slots),
    block_tables: int64(tables, [batch, columns]),
    seq_lens: int64(after),
  };
}

/** How far results are apart from the reference's at most, and what the session tells after a prompt and after the last token. */
interface Outcome {
  readonly apart: number;
  readonly ofPrompt: string;
  readonly told: string;
}

/** Runs a prompt and some tokens of two samples. */
async function run(layers: number, cache: "linear" | "paged", prompt: number): Promise<Outcome> {
  const model = layered(layers, cache);
  const place = PlacedSession.place(offeringGpu({ maxStorageBuffersPerShaderStage: 8 }));
  const sessions = [
    await PlacedSession.on(place, model),
    await InferenceSession.create(model, { backend: "reference" }),
  ] as const;
  const pairs = Object.fromEntries(
    Array.from({ length: layers }, (_, layer) => ["key", "value"].map((which) => `${layer}.${which}`))
      .flat()
      .map((name) => [`past.${name}`, `present.${name}`]),
  );
  const states = sessions.map((session) =>
    session.createState({ pairs, ...(cache === "linear" ? { dims: { batch: 2, capacity: 160 } } : {}) }),
  );
  const told: string[] = [];
  let apart = 0;
  for (const [before, length] of [
    [[0, 3], prompt],
    [[prompt, prompt + 3], 1],
    [[prompt + 1, 5], 1],
    [[4, prompt + 4], 1],
  ] as const) {
    const [ours, theirs] = await Promise.all(
      sessions.map(async (session, at) => {
        const results = await session.run(feedsOf(cache, before, length), { state: states[at] });
        return results[`${layers - 1}.rows`].data as Float32Array;
      }),
    );
    apart = Math.max(apart, largestDifference(ours, theirs));
    told.push(sessions[0].explain());
  }
  await Promise.all(sessions.map((session) => session.release()));
  return { apart, ofPrompt: told[0], told: told.at(-1)! };
}

const bytesIn = (told: string): number => Number(/: (\d+) bytes of this session/.exec(told)![1]);
const timesIn = (told: string, kernel: string): number =>
  told.split("\n").filter((line) => new RegExp(`by [\\w, ]*\\b${kernel}\\b`).test(line)).length;

/** Tables are on the device, neither a second time beside their form nor once for each layer. */
function checkTables(few: Outcome, many: Outcome): void {
  expect(bytesIn(few.told)).toBeGreaterThan(tableBytes);
  expect(bytesIn(many.told)).toBeLessThan(1.5 * tableBytes);
  expect(bytesIn(many.told) - bytesIn(few.told)).toBeLessThan(tableBytes / 4);
}

describe.skipIf(noWebgpu !== undefined)("on a GPU of 8 bindings", () => {
  test("layers on linear caches: two dispatches each, and tables once", async () => {
    const [few, many] = [await run(2, "linear", 3), await run(6, "linear", 3)];
    for (const [{ apart, told }, layers] of [
      [few, 2],
      [many, 6],
    ] as const) {
      expect(apart).toBeLessThan(2e-5);
      expect(timesIn(told, "attentionStepAtOnce")).toBe(layers);
      // Lengths, starts and positions are laid side by side for all of them, by the host.
      for (const name of ["position_ids", "write_indices"])
        expect(told.split("\n").filter((line) => line.trim() === `${name}: 16 bytes from the host`)).toHaveLength(1);
      expect(timesIn(told, "sideBySide")).toBe(0);
      expect(timesIn(told, "writeKeys")).toBe(0);
    }
    checkTables(few, many);
  });

  test.skipIf(!soak)("layers on pages: heads turned and written by one dispatch each, and tables once", async () => {
    const [few, many] = [await run(2, "paged", 80), await run(6, "paged", 80)];
    for (const [{ apart, ofPrompt, told }, layers] of [
      [few, 2],
      [many, 6],
    ] as const) {
      expect(apart).toBeLessThan(2e-5);
      expect(timesIn(ofPrompt, "turnIntoPages")).toBe(layers);
      expect(timesIn(told, "turnIntoPages")).toBe(layers);
      // Which tokens are the last of their slots is found once for all layers.
      expect(timesIn(ofPrompt, "lastTokens")).toBe(1);
    }
    checkTables(few, many);
  });
});
