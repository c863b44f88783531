// Folders with a genai_config.json: what it says of files, ends, lengths and search; models in folders of their own.
import { afterAll, describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { CausalLM } from "../../src/entry/node.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { publishedFiles, writeFolder } from "../support/published-folders.js";

const model = publishedFiles("llama-int4-cpu");
type Folder = ReturnType<typeof writeFolder>;
type Contents = Record<string, Uint8Array | string | object>;
const folders: Folder[] = [];
afterAll(() => {
  for (const folder of folders) folder.remove();
});

/** The published files, some of them changed, left out (undefined) or added. */
function folderOf(changes: Readonly<Record<string, Contents[string] | undefined>> = {}, below = ""): Folder {
  const all = new Map<string, Contents[string] | undefined>([...model, ...Object.entries(changes)]);
  const folder = writeFolder([...all].flatMap(([name, bytes]) => (bytes === undefined ? [] : [[below + name, bytes]])));
  folders.push(folder);
  return folder;
}

const genai = JSON.parse(new TextDecoder().decode(model.get("genai_config.json"))) as {
  model: Record<string, object>;
  search: Record<string, unknown>;
};

const withConfig = (
  parts: Readonly<Record<string, unknown>>,
  search: Readonly<Record<string, unknown>> = {},
): object => ({
  model: { ...genai.model, ...parts },
  search: { ...genai.search, ...search },
});

async function refusal(path: string, options = {}): Promise<string> {
  try {
    await (await CausalLM.load(path, options)).release();
  } catch (error) {
    expect(error).toBeInstanceOf(InsituError);
    return (error as Error).message;
  }
  return "nothing was refused";
}

describe("genai_config.json", () => {
  test("ends, length and search are the file's", async () => {
    const config = withConfig(
      { eos_token_id: [7, 9], context_length: 64 },
      { do_sample: true, temperature: 0.6, top_k: 20, top_p: 0.9, repetition_penalty: 1.1, max_length: 48 },
    );
    const lm = await CausalLM.load(folderOf({ "genai_config.json": config }).path);
    expect(lm.contextLength).toBe(48);
    expect(lm.defaults).toEqual({
      endTokens: [7, 9],
      sampling: { temperature: 0.6, topK: 20, topP: 0.9, minP: undefined, repetitionPenalty: 1.1 },
    });
    expect([lm.config["vocab_size"], lm.vocabulary]).toEqual([160, 160]);
    await lm.release();
    // As onnxruntime-genai has it, 0 is as many as the model was made for.
    const open = await CausalLM.load(
      folderOf({ "genai_config.json": withConfig({ context_length: 64 }, { max_length: 0 }) }).path,
    );
    expect(open.contextLength).toBe(64);
    await open.release();
  });

  test("as it is published, text is the likeliest, up to the model's length", async () => {
    const lm = await CausalLM.load(folderOf().path);
    expect([lm.contextLength, lm.defaults.sampling.temperature, lm.defaults.endTokens]).toEqual([256, 0, [2]]);
    await lm.release();
  });

  test("config.json and generation_config.json go before it", async () => {
    const changes = {
      "config.json": { max_position_embeddings: 99, text_config: { max_position_embeddings: 5, vocab_size: 160 } },
      "generation_config.json": { eos_token_id: 5, do_sample: true, temperature: 0.25 },
    };
    const lm = await CausalLM.load(folderOf(changes).path);
    expect([lm.contextLength, lm.defaults.sampling.temperature, lm.defaults.endTokens]).toEqual([99, 0.25, [5]]);
    await lm.release();
  });

  test("the decoder's file has the name that it says, and may lie further down", async () => {
    const decoder = { ...genai.model["decoder"], filename: "parts/decoder.onnx" };
    const changes = {
      "genai_config.json": withConfig({ decoder }),
      "model.onnx": undefined,
      "model.onnx.data": undefined,
      "parts/decoder.onnx": model.get("model.onnx")!,
      "parts/model.onnx.data": model.get("model.onnx.data")!,
    };
    const lm = await CausalLM.load(folderOf(changes).path);
    expect(await lm.generate("w5 w6", { maxTokens: 3, ignoreEnd: true }).text()).not.toBe("");
    await lm.release();
    expect(await refusal(folderOf({ ...changes, "parts/decoder.onnx": undefined }).path)).toMatch(
      /has no parts\/decoder\.onnx$/,
    );
    expect(await refusal(folderOf({ "model.onnx.data": undefined }).path)).toMatch(/model\.onnx\.data/);
  });

  test("half a model is refused by what is missing, with the way out", async () => {
    const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    expect(await refusal(folderOf({ "model.onnx.data": pointer }).path)).toMatch(
      /external data "model\.onnx\.data" is a git-LFS pointer, .* run git lfs pull/,
    );
    expect(
      await refusal(folderOf({ "model.onnx.data": model.get("model.onnx.data")!.subarray(0, 5000) }).path),
    ).toMatch(/external data "model\.onnx\.data" has 5000 bytes, the tensor needs .*: fetch it again, whole/);
    expect(await refusal(folderOf({ "model.onnx": model.get("model.onnx")!.subarray(0, 9000) }).path)).toMatch(
      /model\.onnx: the bytes are cut off: .*fetch the file again, whole/,
    );
    const graph = readModel(model.get("model.onnx")!);
    const outputs = graph.graph.outputs.filter(({ name }) => name !== "present.1.value");
    const unpaired = writeModel({ ...graph, graph: { ...graph.graph, outputs } });
    expect(await refusal(folderOf({ "model.onnx": unpaired }).path)).toMatch(
      /input "past_key_values\.1\.value" looks like a state, .*no output .*: export the model with that output/,
    );
  });

  test.each(["linear", "paged"])("a decoder without its head is refused, on %s caches", async (cache) => {
    const read = readModel(model.get("model.onnx")!);
    const rows = (name: string): string => (name === "logits" ? "hidden_states" : name);
    const headless = {
      ...read,
      graph: {
        ...read.graph,
        outputs: read.graph.outputs.map((each) => ({ ...each, name: rows(each.name) })),
        nodes: read.graph.nodes.map((each) => ({ ...each, outputs: each.outputs.map(rows) })),
      },
    };
    const { path } = folderOf({ "model.onnx": writeModel(headless) });
    expect(await refusal(path, { cache })).toMatch(/an output "logits"; .* hidden_states.*: export it with its head$/);
  });

  test("parts that are null are none, and an end that is no token is the tokenizer's", async () => {
    for (const own of [
      { encoder: null, eos_token_id: -1 },
      { decoder: { pipeline: null }, eos_token_id: "2" },
      { eos_token_id: [] },
    ]) {
      const lm = await CausalLM.load(folderOf({ "genai_config.json": JSON.stringify(withConfig(own)) }).path);
      expect(lm.defaults.endTokens).toEqual([2]);
      await lm.release();
    }
  });

  test("what makes no sense is refused by its name", async () => {
    const refused = (config: unknown): Promise<string> =>
      refusal(folderOf({ "genai_config.json": JSON.stringify(config) }).path);
    expect(await refused([])).toMatch(/genai_config\.json must hold a JSON object/);
    expect(await refused({ model: 3 })).toMatch(/genai_config\.json: model must be an object, got 3/);
    expect(await refused(withConfig({ context_length: 1.5 }))).toMatch(
      /model\.context_length must be a whole number from 2 on, got 1\.5/,
    );
    expect(await refused(withConfig({}, { max_length: -1 }))).toMatch(/search\.max_length must be a whole number/);
    expect(await refused(withConfig({}, { top_p: 7 }))).toMatch(/^genai_config\.json: topP must be above 0/);
    for (const filename of ["../model.onnx", "/etc/model.onnx", "model.txt", 4])
      expect(await refused(withConfig({ decoder: { filename } }))).toMatch(
        /model\.decoder\.filename must name an ONNX file below the folder/,
      );
    expect(await refused(withConfig({ decoder: { pipeline: [] } }))).toMatch(/in several files that run in turn/);
    expect(await refused(withConfig({ encoder: {} }))).toMatch(/it has an encoder/);
  });
});

describe("models in folders of their own", () => {
  const places = [
    "cuda/cuda-int4-rtn-block-32/",
    "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4/",
    "cpu_and_mobile/cpu-fp32/",
  ];
  const config = (length: number): object => withConfig({ context_length: length });
  const root = folderOf(
    Object.fromEntries([
      ...places.flatMap((place, at) =>
        [...model].map(([name, bytes]) => [
          place + name,
          name === "genai_config.json" ? config(100 + at) : name === "tokenizer.json" && at === 1 ? undefined : bytes,
        ]),
      ),
      ...[...model.keys()].map((name) => [name, name === "tokenizer.json" ? model.get(name) : undefined]),
      ["README.md", "several models"],
    ]),
  );

  test("without a variant the smallest for processors is taken, and the tokenizer that all have in common", async () => {
    const lm = await CausalLM.load(root.path);
    expect(lm.contextLength).toBe(101);
    await lm.release();
  });

  test.each([
    ["cpu-fp32", 102],
    ["cuda", 100],
    ["cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4", 101],
  ])("variant %s", async (variant, length) => {
    const lm = await CausalLM.load(root.path, { variant });
    expect(lm.contextLength).toBe(length);
    await lm.release();
  });

  test("a variant that none of them is", async () => {
    expect(await refusal(root.path, { variant: "npu" })).toMatch(/has no model_npu\.onnx$/);
  });
});
