// Caches whose sizes stand behind symbols in the file: operators fix them, and nobody has to give them.
import { describe, expect, test } from "vitest";
import { publishedDecoder, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import type { Model, ModelDimension, ModelValue } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { buildModel, node, value } from "../../src/onnx/build.js";

const { headSize, keyValueHeads } = smallPublishedSizes;

/** A decoder whose caches name what the builder of published files names, or everything. */
function hidden(names: Readonly<Record<number, string>>): Model {
  const model = publishedDecoder(smallPublishedSizes, { type: "float32" });
  const named = (each: ModelValue): ModelValue => {
    if (!/^(past|present)/.test(each.name) || each.type?.kind !== "tensor") return each;
    const shape = each.type.shape!.map((dim, axis): ModelDimension => names[axis] ?? dim);
    return { ...each, type: { ...each.type, shape } };
  };
  const { graph } = model;
  return { ...model, graph: { ...graph, inputs: graph.inputs.map(named), outputs: graph.outputs.map(named) } };
}

const ids = (...tokens: number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(tokens.map(BigInt)), [1, tokens.length]);

/** The last logits of two runs on a state. */
async function logitsOf(model: Model, dims: Readonly<Record<string, number>>): Promise<number[]> {
  const session = await InferenceSession.create(writeModel(model), { rewrite: "never", threads: 1 });
  const state = session.createState({ dims });
  await session.run({ input_ids: ids(3, 4, 5), attention_mask: ids(1, 1, 1) }, { state });
  const { logits } = await session.run({ input_ids: ids(6), attention_mask: ids(1, 1, 1, 1) }, { state });
  const numbers = [...(logits.data as Float32Array)];
  await session.release();
  return numbers;
}

describe.each([
  ["the last dimension", { 3: "kv_cache_dim" }],
  ["heads and the last dimension", { 1: "num_kv_heads", 3: "kv_cache_dim" }],
])("%s behind a symbol", (_, names: Readonly<Record<number, string>>) => {
  test("a state needs no size of it, and has the same logits", async () => {
    const wanted = await logitsOf(hidden({}), { batch: 1, capacity: 8 });
    expect(await logitsOf(hidden(names), { batch: 1, capacity: 8 })).toEqual(wanted);
    expect(await logitsOf(hidden(names), { batch: 1, capacity: 8, kv_cache_dim: headSize })).toEqual(wanted);
  });

  test("a size that the operators do not have is refused", async () => {
    const session = await InferenceSession.create(writeModel(hidden(names)), { rewrite: "never" });
    expect(() => session.createState({ dims: { kv_cache_dim: 5 } })).toThrow(
      `dims.kv_cache_dim is ${headSize}, as the model's operators have it, got 5`,
    );
    expect(() => session.createState({ dims: { kv_cache: 5 } })).toThrow(/names no dimension of a cache/);
    const { shape } = session.inputMetadata.find(({ name }) => name === "past_key_values.1.value")!;
    expect(shape.filter((dim) => typeof dim === "number")).toEqual([keyValueHeads, headSize]);
    await session.release();
  });

  test("the rewritten model declares it", () => {
    const { model } = rewrite(hidden(names));
    const { type } = model.graph.inputs.find(({ name }) => name === "past_key_values.0.key")!;
    expect(type?.kind === "tensor" && type.shape).toEqual(["batch_size", keyValueHeads, "capacity", headSize]);
  });
});

test("one symbol may stand for a size in each cache", async () => {
  // Caches that Concat appends to, of heads as wide as what comes.
  const widths = [2, 3];
  const caches = widths.map((_, at) => value(`past_${at}`, "float32", ["batch", "rows", "dim"]));
  const rows = widths.map((width, at) => value(`new_${at}`, "float32", ["batch", "fresh", width]));
  const model = buildModel({
    opset: 17,
    inputs: [...caches, ...rows],
    outputs: widths.map((_, at) => value(`present_${at}`, "float32", ["batch", "all", "dim"])),
    nodes: widths.map((_, at) => node("Concat", [`past_${at}`, `new_${at}`], [`present_${at}`], { axis: 1 })),
  });
  const session = await InferenceSession.create(writeModel(model));
  const state = session.createState({ dims: { batch: 1, capacity: 4 } });
  const feeds = Object.fromEntries(
    widths.map((width, at) => [
      `new_${at}`,
      new Tensor("float32", new Float32Array(width).fill(at + 1), [1, 1, width]),
    ]),
  );
  await session.run(feeds, { state });
  expect(widths.map((_, at) => state.get(`past_${at}`).dims)).toEqual([
    [1, 1, 2],
    [1, 1, 3],
  ]);
  await session.release();
});
