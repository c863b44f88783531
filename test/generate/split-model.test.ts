// Decoders that read embeddings, with the model that makes them beside it: in transformers.js' layout, and as genai_config.json names them. The
// answers are onnxruntime's for the same weights in one file.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { join } from "node:path";
import { CausalLM } from "../../src/entry/node.js";
import { graph as makeGraph, initializer, node, value } from "../../src/onnx/build.js";
import { loadModel } from "../../src/onnx/load.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { publishedAnswers, publishedFiles, writeFolder } from "../support/published-folders.js";

const files = publishedFiles("qwen3-int4-cpu");
const answers = publishedAnswers("qwen3-int4-cpu")!;
const made = "/model/embed_tokens/Gather/output_0";
const weight = "model.embed_tokens.weight";
type Contents = [path: string, bytes: Uint8Array | string | object][];

let whole: Model;
const folders: ReturnType<typeof writeFolder>[] = [];
beforeAll(async () => {
  const folder = writeFolder(files);
  folders.push(folder);
  whole = await loadModel(join(folder.path, "model.onnx"), nodePlatform);
});
afterAll(() => {
  for (const folder of folders) folder.remove();
});

/** The embedding by itself; `images` adds an input that is joined behind the tokens' rows. */
function embedding(images = false): Uint8Array {
  const table = whole.graph.initializers.find(({ name }) => name === weight)!;
  const rows = { ...table, dims: table.dims };
  delete (rows as { external?: object }).external;
  const gather = node("Gather", [weight, "input_ids"], [images ? "words" : "inputs_embeds"]);
  // Rows for images go to the places of one token, of which a text has none.
  const filled = [
    node("Equal", ["input_ids", "image_token"], ["is_image"]),
    node("NonZero", ["is_image"], ["places"]),
    node("Transpose", ["places"], ["indices"], { perm: [1, 0] }),
    node("ScatterND", ["words", "indices", "image_features"], ["inputs_embeds"]),
  ];
  return writeModel({
    ...whole,
    opsets: new Map([["", 17]]),
    graph: makeGraph({
      inputs: [
        value("input_ids", "int64", ["batch", "length"]),
        ...(images ? [value("image_features", "float32", ["images", 64])] : []),
      ],
      outputs: [value("inputs_embeds", "float32", ["batch", "length", 64])],
      nodes: [gather, ...(images ? filled : [])],
      initializers: [rows, initializer("image_token", new Tensor("int64", BigInt64Array.of(159n), []))],
    }),
  });
}

/** The decoder without it; `rows` has three rows of positions that it adds nothing by. */
function decoder(rows = false): Uint8Array {
  const { graph } = whole;
  const rest = graph.nodes.filter(({ outputs }) => outputs[0] !== made);
  // The first row less the second, times the embeddings' type: nothing, as long as a text's rows are the same.
  const nothing = [
    node("Split", ["position_ids"], ["row_0", "row_1", "row_2"], { axis: 0, num_outputs: 3 }),
    node("Sub", ["row_0", "row_1"], ["none"]),
    node("Cast", ["none"], ["none_as_float"], { to: 1 }),
    node("Transpose", ["none_as_float"], ["none_by_token"], { perm: [1, 2, 0] }),
    node("Add", ["inputs_embeds", "none_by_token"], [made]),
  ];
  return writeModel({
    ...whole,
    graph: {
      ...graph,
      inputs: [
        value("inputs_embeds", "float32", ["batch_size", "sequence_length", 64]),
        ...graph.inputs.filter(({ name }) => name !== "input_ids"),
        ...(rows ? [value("position_ids", "int64", [3, "batch_size", "sequence_length"])] : []),
      ],
      nodes: [...(rows ? nothing : [node("Identity", ["inputs_embeds"], [made])]), ...rest],
      initializers: graph.initializers.filter(({ name }) => name !== weight),
    },
  });
}

/** The texts that describe the model. */
const texts = (): Contents =>
  [...files].filter(([name]) => name.startsWith("tokenizer")).map(([name, bytes]) => [name, bytes]);

const data = (at: string): Contents => [[`${at}model.onnx.data`, files.get("model.onnx.data")!]];

async function tokensOf(path: string, cache: "linear" | "paged", options = {}): Promise<number[]> {
  const lm = await CausalLM.load(path, { cache, threads: 1, ...options });
  const tokens: number[] = [];
  for await (const { token } of lm.generate(answers.prompt, { maxTokens: 12, temperature: 0, ignoreEnd: true }))
    tokens.push(token);
  await lm.release();
  return tokens;
}

const wanted = answers.steps.map((logits) => logits.indexOf(Math.max(...logits)));
const write = (contents: Contents): string => {
  const folder = writeFolder(contents);
  folders.push(folder);
  return folder.path;
};

describe.each(["linear", "paged"] as const)("%s caches", (cache) => {
  test("transformers.js' layout, of one variant or of two", async () => {
    const config: Contents = [["config.json", { text_config: { vocab_size: 160, max_position_embeddings: 64 } }]];
    const path = write([
      ...texts(),
      ...config,
      ...data("onnx/"),
      ["onnx/embed_tokens.onnx", embedding()],
      ["onnx/decoder_model_merged_q4.onnx", decoder()],
      ["onnx/vision_encoder.onnx", "not looked at"],
    ]);
    expect(await tokensOf(path, cache)).toEqual(wanted);
    expect(await tokensOf(path, cache, { variant: "q4" })).toEqual(wanted);
  });

  test("as genai_config.json names them, with images that are not there and three rows of positions", async () => {
    const config = { model: { decoder: { filename: "text.onnx" }, embedding: { filename: "embed.onnx" }, vision: {} } };
    const path = write([
      ...texts(),
      ...data(""),
      ["genai_config.json", config],
      ["text.onnx", decoder(true)],
      ["embed.onnx", embedding(true)],
    ]);
    expect(await tokensOf(path, cache)).toEqual(wanted);
  });
});

test("an embedding that no configuration names is found beside the decoder, whatever that is called", async () => {
  const named = { model: { decoder: { filename: "model.onnx" } } };
  const builders = write([
    ...texts(),
    ...data(""),
    ["genai_config.json", named],
    ["model.onnx", decoder()],
    ["embed_tokens.onnx", embedding()],
  ]);
  expect(await tokensOf(builders, "linear")).toEqual(wanted);
  const hub = write([
    ...texts(),
    ...data("onnx/"),
    ["onnx/model_q4.onnx", decoder()],
    ["onnx/embed_tokens_q4.onnx", embedding()],
    ["onnx/embed_tokens.onnx", "not looked at"],
  ]);
  expect(await tokensOf(hub, "linear", { variant: "q4" })).toEqual(wanted);
  expect(await tokensOf(join(hub, "onnx", "model_q4.onnx"), "linear")).toEqual(wanted);
});

test("half a model is refused by what is missing", async () => {
  const alone = write([...texts(), ...data("onnx/"), ["onnx/decoder_model_merged.onnx", decoder()]]);
  await expect(CausalLM.load(alone)).rejects.toThrow(
    /decoder_model_merged\.onnx, which reads embeddings, and no embed_tokens/,
  );
  const unnamed = write([...texts(), ...data(""), ["model.onnx", decoder()]]);
  await expect(CausalLM.load(unnamed)).rejects.toThrow(
    /model\.onnx" reads embeddings, "inputs_embeds", and no file beside it/,
  );
  const other = write([
    ...texts(),
    ...data("onnx/"),
    ["onnx/embed_tokens.onnx", writeModel({ ...whole, graph: makeGraph({ inputs: [], outputs: [] }) })],
    ["onnx/decoder_model_merged.onnx", decoder()],
  ]);
  await expect(CausalLM.load(other)).rejects.toThrow(/no output of it is what the decoder reads as "inputs_embeds"/);
});
