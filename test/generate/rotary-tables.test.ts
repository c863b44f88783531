// LongRoPE: texts longer than the model's first training are read with other rotary tables, from their first token on. The oracle is the
// published file itself, fed the whole text in one run for every token; its If over two tables, and both tables one behind the other.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { seededRandom } from "../../src/graph/call.js";
import { CausalLM, InferenceSession } from "../../src/entry/node.js";
import { readModel } from "../../src/onnx/read.js";
import { initializer, node, value } from "../../src/onnx/build.js";
import type { Model, ModelAttribute } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { joinTables, longTextsOf } from "../../packages/rewrite/rotary-tables.js";
import { nodePlatform } from "../../src/platform/node.js";
import { join } from "node:path";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { createEngine } from "../../packages/serve/running/create-engine.js";
import { submit } from "../serve/engine-support.js";
import { MemoryStore } from "../serve/memory-store.js";
import { publishedFiles, writeFolder } from "../support/published-folders.js";
import { loadModel } from "../../src/onnx/load.js";

const limit = 32;
const random = seededRandom(4);
const words = Array.from({ length: 80 }, () => 3 + Math.floor(random() * 150));
const greedy = { temperature: 0, ignoreEnd: true, logprobs: true } as const;

const files = publishedFiles("phi3-long-int4-cpu");
const published = writeFolder(files);
let concatenated: ReturnType<typeof writeFolder>;
let apart: ReturnType<typeof writeFolder>;
let oracle: InferenceSession;

const int64 = (values: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);

/** What the oracle said of a text before. */
const said = new Map<string, Promise<number[]>>();

/** Log-probabilities behind a text, read whole. */
function behind(tokens: readonly number[]): Promise<number[]> {
  const key = tokens.join();
  const before = said.get(key) ?? readWhole(tokens);
  said.set(key, before);
  return before;
}

async function readWhole(tokens: readonly number[]): Promise<number[]> {
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

async function* streamOf(steps: readonly Step[]): AsyncGenerator<Step> {
  yield* steps;
}

/** Fails unless each text of a batch is what the oracle reads. */
async function expectBatch(lm: CausalLM, prompts: readonly (readonly number[])[], count: number): Promise<void> {
  const texts = prompts.map((): Step[] => []);
  const options = { ...greedy, maxTokens: count };
  for await (const token of lm.generateBatch(
    prompts.map((prompt) => [...prompt]),
    options,
  ))
    texts[token.sample].push(token);
  for (const [at, prompt] of prompts.entries()) {
    await expectRead(prompt, streamOf(texts[at]), count);
  }
}

/** The model with RotaryEmbedding before its attention, as the builder writes it where the attention does not rotate. */
function rotatedBefore(model: Model): Model {
  const nodes = model.graph.nodes.flatMap((attention) => {
    if (attention.opType !== "GroupQueryAttention") return [attention];
    const [packed, , , ...others] = attention.inputs;
    const [query, key, values] = ["query", "key", "value"].map((part) => `${attention.name}/${part}`);
    const rotated = [query, key].map((part) =>
      node(
        "RotaryEmbedding",
        [part, "position_ids", "cos_cache", "sin_cache"],
        [`${part}/rotated`],
        {},
        { domain: "com.microsoft" },
      ),
    );
    const attributes = new Map(attention.attributes);
    attributes.set("do_rotary", { ...attributes.get("do_rotary")!, value: 0n } as ModelAttribute);
    return [
      node("Split", [packed, "sizes"], [query, key, values], { axis: -1 }),
      ...rotated,
      { ...attention, attributes, inputs: [`${query}/rotated`, `${key}/rotated`, values, ...others.slice(0, 4)] },
    ];
  });
  const positions = value("position_ids", "int64", ["batch_size", "sequence_length"]);
  const sizes = initializer("sizes", "int64", BigInt64Array.of(64n, 32n, 32n), [3]);
  const { inputs, initializers } = model.graph;
  return {
    ...model,
    graph: { ...model.graph, nodes, inputs: [...inputs, positions], initializers: [...initializers, sizes] },
  };
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
  apart = writeFolder([...files, ["model.onnx", writeModel(rotatedBefore(model))]]);
});
afterAll(async () => {
  await oracle.release();
  published.remove();
  concatenated.remove();
  apart.remove();
});

test("the length and the size of the first tables are found in the file", () => {
  expect(longTextsOf(readModel(files.get("model.onnx")!))).toEqual({ from: limit, offset: limit });
});

describe.each([
  ["published tables", () => published.path],
  ["concatenated tables", () => concatenated.path],
  ["tables that RotaryEmbedding reads", () => apart.path],
])("%s", (form, path) => {
  const load = (options: object): Promise<CausalLM> => CausalLM.load(path(), { threads: 1, ...options });

  test.each(["linear", "paged"])("caches are written in place: %s", async (cache) => {
    const lm = await load({ cache, inPlace: "require" });
    expect(lm.session.explain({ json: true }).caches.every(({ inPlace }) => inPlace)).toBe(true);
    await lm.release();
  });

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

  test("texts beside each other, of which some become long", async () => {
    for (const options of [{}, { cache: "paged", blockSize: 4 }, { cache: "paged", blockSize: 16, chunk: 7 }]) {
      const lm = await load({ context: 96, ...options });
      const prompts = [words.slice(0, 30), words.slice(3, 9), words.slice(0, 50), words.slice(10, 42)];
      await expectBatch(lm, prompts, 8);
      await lm.release();
    }
  });

  test("texts on pages that become long, and prompts that are, one after the other", async () => {
    for (const options of [{ blockSize: 4 }, { blockSize: 8, chunk: 5 }, { batchInvariant: true }]) {
      const lm = await load({ cache: "paged", context: 96, ...options });
      expect(lm.contextLength).toBe(96);
      const text = await expectRead(
        words.slice(0, 28),
        lm.generate(words.slice(0, 28), { ...greedy, maxTokens: 9 }),
        9,
      );
      await expectRead(text, lm.generate(text, { ...greedy, maxTokens: 2 }), 2);
      for (const length of [20, 33, 31, 70, 32, 34]) {
        const prompt = words.slice(0, length);
        await expectRead(prompt, lm.generate(prompt, { ...greedy, maxTokens: 3 }), 3);
      }
      await lm.release();
    }
  });

  test("long texts share beginnings with long ones alone", async () => {
    const lm = await load({ cache: "paged", context: 96, blockSize: 4, keep: 0 });
    const reused = async (length: number, maxTokens = 1): Promise<number> => {
      const generation = lm.generate(words.slice(0, length), { ...greedy, maxTokens });
      await expectRead(words.slice(0, length), generation, maxTokens);
      return generation.summary.reusedTokens;
    };
    expect(await reused(24)).toBe(0);
    expect(await reused(60)).toBe(0);
    expect(await reused(29)).toBe(24);
    expect(await reused(65)).toBe(60);
    // A short one that becomes long finds what long ones have read.
    expect(await reused(30, 5)).toBe(28);
    await lm.release();
  });

  test("a short text that slides to positions of long ones is the same on pages", async () => {
    const context = 24;
    const [linear, paged] = [await load({ context }), await load({ context, cache: "paged", blockSize: 4 })];
    const how = { ...greedy, maxTokens: 70, whenFull: "slide" } as const;
    const texts = [linear, paged].map(async (lm) => {
      const steps: number[][] = [];
      for await (const { token, logprob } of lm.generate(words.slice(0, 20), how)) steps.push([token, logprob!]);
      return steps;
    });
    const [expected, actual] = await Promise.all(texts);
    expect(actual.map(([token]) => token)).toEqual(expected.map(([token]) => token));
    for (const [at, [, logprob]] of actual.entries())
      expect(Math.abs(logprob - expected[at][1])).toBeLessThan(tolerance);
    await Promise.all([linear.release(), paged.release()]);
  });

  test("one that is left in the middle of its prompt; saved ones; samples", async () => {
    const lm = await load({ cache: "paged", context: 64, blockSize: 4, chunk: 6 });
    const stop = new AbortController();
    const left = lm.generate(words.slice(0, 50), { ...greedy, signal: stop.signal }).text();
    setImmediate(() => stop.abort(new Error("enough")));
    await expect(left).rejects.toThrow("enough");
    await expectRead(words.slice(0, 20), lm.generate(words.slice(0, 20), { ...greedy, maxTokens: 3 }), 3);
    const text = await expectRead(words.slice(0, 40), lm.generate(words.slice(0, 40), { ...greedy, maxTokens: 4 }), 4);
    const bytes = await lm.saveContext();
    const other = await load({ cache: "paged", context: 64, blockSize: 4 });
    await other.restoreContext(bytes);
    const on = other.generate(text, { ...greedy, maxTokens: 3 });
    await expectRead(text, on, 3);
    expect(on.summary.reusedTokens).toBeGreaterThan(40);
    for (const sample of await other.samples(words.slice(0, 31), 2, { ...greedy, maxTokens: 4 }))
      await expectRead(words.slice(0, 31), sample, 4);
    await Promise.all([lm.release(), other.release()]);
  });

  test("in a server's engine, with too few blocks for all, and a store of prefixes", async () => {
    const store = new MemoryStore();
    const prefixes = { store, fingerprint: form, leastTokens: 8 };
    for (const blocks of [26, 200]) {
      const lm = await load({ cache: "paged", context: 80, blockSize: 4, blocks });
      const engine = createEngine(lm, { tokenBudget: 24, mostRunning: 8, mostPreemptions: 2, watermark: 0, prefixes });
      for (const lengths of [
        [14, 12, 13, 11, 15, 10, 12, 13],
        [40, 29, 31, 12, 50, 33],
        [28, 45, 24],
      ]) {
        // Every other one begins as others do.
        const texts = lengths.map((length, at) => words.slice(at % 2 === 0 ? 0 : at, (at % 2 === 0 ? 0 : at) + length));
        const heard = texts.map((prompt, at) =>
          submit(engine, {
            prompt,
            maxTokens: 24 - 2 * at,
            logprobs: 0,
            tenant: `tenant ${at % 2}`,
          }),
        );
        await Promise.all(heard.map(({ over }) => over));
        for (const [at, { made, end, error }] of heard.entries()) {
          expect([end, error]).toEqual(["max-tokens", undefined]);
          await expectRead(texts[at], streamOf(made), 24 - 2 * at);
        }
      }
      const { blocksUsed, preemptions, store: asked } = engine.figures();
      expect([blocksUsed, preemptions > 0, asked!.hits > 0 || blocks < 100]).toEqual([0, blocks < 100, true]);
      await engine.close();
      await lm.release();
    }
    expect(store.values.size).toBeGreaterThan(20);
  });
});
