// LongRoPE: texts longer than the model's first training are read with other rotary tables, from their first token on. The oracle is the
// published file itself, fed the whole text in one run for every token; its If over two tables, and both tables one behind the other.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { seededRandom } from "../../src/graph/call.js";
import { CausalLM, InferenceSession } from "../../src/entry/node.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { joinTables, longTextsFrom } from "../../packages/rewrite/rotary-tables.js";
import { nodePlatform } from "../../src/platform/node.js";
import { join } from "node:path";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { publishedFiles, writeFolder } from "../support/published-folders.js";
import { loadModel } from "../../src/onnx/load.js";

const limit = 32;
const random = seededRandom(4);
const words = Array.from({ length: 80 }, () => 3 + Math.floor(random() * 150));
const greedy = { temperature: 0, ignoreEnd: true, logprobs: true } as const;

const files = publishedFiles("phi3-long-int4-cpu");
const published = writeFolder(files);
let concatenated: ReturnType<typeof writeFolder>;
let oracle: InferenceSession;

const int64 = (values: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);

/** Log-probabilities behind a text, read whole. */
async function behind(tokens: readonly number[]): Promise<number[]> {
  const feeds: Record<string, Tensor> = { input_ids: int64(tokens), attention_mask: int64(tokens.map(() => 1)) };
  for (const { name, type } of oracle.inputMetadata)
    if (name.startsWith("past")) feeds[name] = Tensor.fromView(View.allocate(type, [1, 2, 0, 16]));
  const { logits } = await oracle.run(feeds, { logits: null });
  const row = Array.from((logits.data as Float32Array).slice(-160));
  const most = Math.max(...row);
  const sum = Math.log(row.reduce((all, logit) => all + Math.exp(logit - most), 0)) + most;
  return row.map((logit) => logit - sum);
}

interface Step {
  readonly token: number;
  readonly logprob?: number;
}

/** Products round activations to bytes: sums in another order may round one the other way. The wrong tables are ten times as far off. */
const tolerance = 1e-2;

/** Fails unless every token is the likeliest behind all before it, with its probability. */
async function expectRead(prompt: readonly number[], steps: AsyncIterable<Step>, count: number): Promise<number[]> {
  const text = [...prompt];
  for await (const { token, logprob } of steps) {
    const wanted = await behind(text);
    expect(Math.abs(logprob! - wanted[token]), `behind ${text.length} tokens`).toBeLessThan(tolerance);
    expect(Math.max(...wanted) - wanted[token]).toBeLessThan(tolerance);
    text.push(token);
  }
  expect(text.length).toBe(prompt.length + count);
  return text;
}

beforeAll(async () => {
  oracle = await InferenceSession.create(join(published.path, "model.onnx"), {
    rewrite: "never",
    threads: 1,
    inPlace: "never",
    graphOptimizationLevel: "disabled",
  });
  const model = await loadModel(join(published.path, "model.onnx"), nodePlatform);
  const { metadata, ...joined } = joinTables(model);
  expect(metadata.size).toBeGreaterThan(model.metadata.size);
  const config = JSON.parse(new TextDecoder().decode(files.get("genai_config.json"))) as {
    model: { decoder: { session_options: { provider_options: object[] } } };
  };
  config.model.decoder.session_options.provider_options.push({
    webgpu: { multiRotaryCacheConcatOffset: String(limit) },
  });
  concatenated = writeFolder([
    ...files,
    ["model.onnx", writeModel({ ...joined, metadata: model.metadata })],
    ["genai_config.json", config],
  ]);
});
afterAll(async () => {
  await oracle.release();
  published.remove();
  concatenated.remove();
});

test("the length is found in the file", () => {
  expect(longTextsFrom(readModel(files.get("model.onnx")!))).toBe(limit);
});

describe.each(["published", "concatenated"])("%s tables", (form) => {
  const load = (options: object): Promise<CausalLM> =>
    CausalLM.load((form === "published" ? published : concatenated).path, { threads: 1, ...options });

  test.each([
    ["in one run", {}],
    ["in parts of 5", { chunk: 5 }],
    ["as the file has it, caches growing", { chunk: 7, rewrite: "never" }],
  ])("a text that becomes long, and prompts that are, %s", async (_, options) => {
    const lm = await load(options);
    const text = await expectRead(words.slice(0, 28), lm.generate(words.slice(0, 28), { ...greedy, maxTokens: 9 }), 9);
    // On from there, back to a short one, and to a long one again.
    await expectRead(text, lm.generate(text, { ...greedy, maxTokens: 2 }), 2);
    await expectRead(words.slice(0, 20), lm.generate(words.slice(0, 20), { ...greedy, maxTokens: 3 }), 3);
    for (const length of [31, 32, 33, 34, 70]) {
      const prompt = words.slice(0, length);
      await expectRead(prompt, lm.generate(prompt, { ...greedy, maxTokens: 3 }), 3);
    }
    await lm.release();
  });

  test("guesses, and several texts of one prompt", async () => {
    const lm = await load({ chunk: 6 });
    const prompt = Array.from({ length: 29 }, (_, at) => words[at % 4]);
    const options = { ...greedy, maxTokens: 10, speculate: { ngram: 2, draft: 4, adaptive: false } };
    await expectRead(prompt, lm.generate(prompt, options), 10);
    for (const sample of await lm.samples(prompt, 2, { ...greedy, maxTokens: 6 })) await expectRead(prompt, sample, 6);
    await lm.release();
  });

  test("texts beside each other and on pages stay short ones", async () => {
    const lm = await load({});
    const prompts = [words.slice(0, 30), words.slice(3, 9)];
    const texts: Step[][] = [[], []];
    for await (const token of lm.generateBatch(prompts, { ...greedy, maxTokens: 8 })) texts[token.sample].push(token);
    expect(texts.map(({ length }) => length)).toEqual([3, 8]);
    await lm.release();
    const paged = await load({ cache: "paged" });
    expect(paged.contextLength).toBe(limit);
    async function* all(): AsyncGenerator<Step> {
      yield* paged.generate(prompts[0], { ...greedy, maxTokens: 2 });
    }
    await expectRead(prompts[0], all(), 2);
    await paged.release();
    await expect(load({ cache: "paged", context: 64 })).rejects.toThrow(
      /option context must be at most 32 on pages, got 64: .* load it with cache: "linear"/,
    );
  });
});
