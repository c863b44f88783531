// Embeddings beside texts: a model that hands out its last hidden state is read on pages, in chunks, and its mean is that of a run on linear
// caches; the embedded model does not hand it out.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Decoder } from "../../src/decoder/decoder.js";
import type { LanguageModel } from "../../src/generate/causal-lm.js";
import { CausalLM } from "../../src/index.node.js";
import { node, value } from "../../src/onnx/build.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { createEngine } from "../../packages/serve/running/create-engine.js";
import { embedded } from "../generate/support.js";
import { submit, tokensAlone } from "./engine-support.js";

let folder: string;
let model: LanguageModel;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "insitu-hidden-"));
  cpSync(embedded, folder, { recursive: true });
  const path = join(folder, "onnx/model.onnx");
  const plain = readModel(new Uint8Array(readFileSync(path)));
  const last = plain.graph.nodes.find(({ outputs }) => outputs.includes("logits"))!;
  writeFileSync(
    path,
    writeModel({
      ...plain,
      graph: {
        ...plain.graph,
        nodes: [...plain.graph.nodes, node("Identity", [last.inputs[0]], ["last_hidden_state"])],
        outputs: [...plain.graph.outputs, value("last_hidden_state", "float32", ["batch", "sequence", 384])],
      },
    }),
  );
  model = await CausalLM.load(folder, {
    cache: "paged",
    batchInvariant: true,
    threads: 1,
    context: 128,
    blocks: 16,
    keep: 0,
  });
});
afterAll(async () => {
  await model.release();
  rmSync(folder, { recursive: true });
});

const tokens = Array.from({ length: 70 }, (_, at) => 300 + ((at * 53) % 900));

test("the mean of the last hidden state, beside a text that is not disturbed", async () => {
  const linear = await CausalLM.load(folder, { threads: 1, context: 128 });
  const state = linear.session.createState({ dims: { batch: 1, capacity: 128 } });
  const decoder = new Decoder(linear.session, { measures: "last_hidden_state" });
  const { measured } = await decoder.runMeasured(state, { tokens: [tokens], positions: [0] });
  const hidden = measured[0].data as Float32Array;
  const wanted = Array.from(
    { length: 384 },
    (_, at) => tokens.reduce((sum, _t, row) => sum + hidden[row * 384 + at], 0) / 70,
  );
  await linear.release();
  const alone = await tokensAlone(model, [5, 6, 7], { maxTokens: 12, ignoreEnd: true });
  const engine = createEngine(model, { tokenBudget: 32 });
  const text = submit(engine, { prompt: [5, 6, 7], maxTokens: 12 });
  const [mean, again] = await Promise.all([engine.embed!(tokens), engine.embed!(tokens)]);
  await text.over;
  expect(text.tokens).toEqual(alone);
  expect(mean).toEqual(again);
  expect(Math.max(...mean.map((x, at) => Math.abs(x - wanted[at])))).toBeLessThan(1e-3);
  await expect(engine.embed!(tokens, AbortSignal.abort(new Error("not any more")))).rejects.toThrow("not any more");
  await expect(engine.embed!([])).rejects.toThrow(/token/);
  const late = engine.embed!(tokens);
  const closing = engine.close();
  await expect(late).rejects.toMatchObject({ code: "closed" });
  await closing;
  expect(engine.figures().blocksUsed).toBe(0);
});

test("beside texts that take all blocks they wait, each with the mean that it has alone", async () => {
  const inputs = [tokens, tokens.slice(9), tokens].map((each, at) => [...each, ...tokens.slice(0, 20 + at)]);
  const quiet = createEngine(model, { tokenBudget: 256 });
  const alone: Float32Array[] = [];
  for (const input of inputs) alone.push(await quiet.embed!(input));
  await quiet.close();
  const texts = Array.from({ length: 4 }, (_, at) => [5, 6, 7 + at]);
  const made: number[][] = [];
  for (const prompt of texts) made.push(await tokensAlone(model, prompt, { maxTokens: 45, ignoreEnd: true }));
  // There is room for an embedding when it begins, and none any more when four texts have gone on beside it.
  const engine = createEngine(model, { tokenBudget: 8, mostRunning: 8 });
  const heard = texts.map((prompt) => submit(engine, { prompt, maxTokens: 45 }));
  while (heard.some((text) => text.tokens.length < 27)) await new Promise((resolve) => setImmediate(resolve));
  const means = await Promise.all(
    inputs.map((input, at) => engine.embed!(input, undefined, { tenant: `tenant ${at}` })),
  );
  await Promise.all(heard.map(({ over }) => over));
  expect(means).toEqual(alone);
  expect(heard.map((text) => text.tokens)).toEqual(made);
  expect(engine.figures().preemptions).toBeGreaterThan(0);
  await engine.close();
  expect(engine.figures().blocksUsed).toBe(0);
});

test("one that leaves while it waits is gone at once, and errors name nobody else's sequences", async () => {
  const engine = createEngine(model, { mostRunning: 1 });
  const text = submit(engine, { prompt: [5, 6, 7], maxTokens: 40 });
  const leaving = new AbortController();
  const waiting = engine.embed!(tokens, leaving.signal);
  leaving.abort(new Error("not any more"));
  await expect(waiting).rejects.toThrow("not any more");
  expect(text.end).toBeUndefined();
  // Blocks that the engine does not know of: what runs alone cannot go on.
  const { pool } = model.pages!;
  const foreign = pool.add("a foreign sequence");
  pool.append([{ sequence: foreign, tokens: pool.room - 16 }]);
  const failed = await engine.embed!(tokens).catch((error: unknown) => error);
  await text.over;
  foreign.release();
  for (const error of [failed, text.error]) {
    expect(error).toMatchObject({ code: "out-of-memory", message: expect.stringContaining("--blocks") as string });
    expect((error as Error).message).not.toContain("foreign");
  }
  await engine.close();
});

test("one that fails fails alone: the texts that were read in its step go on as they do alone", async () => {
  const prompt = [5, 6, 7];
  const alone = await tokensAlone(model, prompt, { maxTokens: 12 });
  const pagedDecoder = new Proxy(model.pagedDecoder!, {
    get(decoder, name) {
      const value: unknown = Reflect.get(decoder, name, decoder);
      if (name === "sumHidden") return () => Promise.reject(new Error("no sums"));
      return typeof value === "function" ? (value.bind(decoder) as unknown) : value;
    },
  });
  const { contextLength, vocabulary } = model;
  const engine = createEngine({ contextLength, vocabulary, pagedDecoder });
  const text = submit(engine, { prompt, maxTokens: 12 });
  const embeddings = await Promise.allSettled([engine.embed!(tokens), engine.embed!(tokens)]);
  await text.over;
  for (const each of embeddings) expect(each).toMatchObject({ status: "rejected", reason: { message: "no sums" } });
  expect([text.error, text.tokens]).toEqual([undefined, alone]);
  await engine.close();
});

test("a model that does not hand it out has no embeddings", async () => {
  const { contextLength, vocabulary } = model;
  const decoder = model.pagedDecoder!;
  const pagedDecoder = new Proxy(decoder, {
    get: (target, name) => (name === "givesHidden" ? false : (Reflect.get(target, name, target) as unknown)),
  });
  expect(createEngine({ contextLength, vocabulary, pagedDecoder }).embed).toBeUndefined();
});
