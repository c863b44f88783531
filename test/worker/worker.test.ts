// insitu/worker in Node: a model in a thread of its own says what the library says in this one, and this one stays free meanwhile. What
// browsers do with it is in test/browser.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { generatedDecoder } from "../../tools/demo/decoder.js";
import * as here from "../../src/entry/node.js";
import * as library from "../../src/index.node.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { CausalLM, EmbeddingModel, InferenceSession } from "../../packages/worker/node.js";
import { writeEncoder, writeRanker } from "../generate/embedding-folders.js";
import { hubFolder } from "../generate/support.js";
import { hermesTemplate } from "../serve/scripted-engine.js";

const folder = hubFolder("llama_op24");
let lm: CausalLM;
let local: here.CausalLM;
const reports: number[][] = [];
const greedy = { temperature: 0, ignoreEnd: true };

beforeAll(async () => {
  local = await here.CausalLM.load(folder.path, { threads: 1 });
  lm = await CausalLM.load(folder.path, { threads: 1, onProgress: (done, total) => reports.push([done, total]) });
});
afterAll(async () => {
  await lm.release();
  await local.release();
  folder.remove();
});

/** What a promise is refused with. */
const refusal = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "nothing was refused",
    (error: unknown) => error,
  );

describe("a language model", () => {
  test("tells of its loading, and what it is", () => {
    expect(reports[0][0]).toBe(0);
    expect(reports.at(-1)![0]).toBe(reports.at(-1)![1]);
    expect(reports.at(-1)![1]).toBeGreaterThan(1000);
    expect([lm.backend, lm.contextLength, lm.vocabulary]).toEqual(["wasm", 128, 256]);
    expect(lm.config).toEqual(local.config);
  });

  test("writes the same text, more tokens than go ahead of a reader", async () => {
    const options = { ...greedy, maxTokens: 100, logprobs: 1 };
    const remote = lm.generate("abc", options);
    const tokens: number[] = [];
    for await (const { token } of remote) tokens.push(token);
    const wanted = local.generate("abc", options);
    const expected: number[] = [];
    for await (const { token } of wanted) expected.push(token);
    expect(tokens).toEqual(expected);
    expect(remote.textSoFar).toBe(wanted.textSoFar);
    expect(remote.summary).toMatchObject({ newTokens: 100, finishReason: "length", movedBytes: 0 });
    expect(await lm.decode(await lm.encode("wolf"))).toBe("wolf");
    expect(await refusal(remote.text())).toMatchObject({ code: "invalid-argument" });
  });

  test("waits for its reader, stops when asked to, and goes on with other texts", async () => {
    const controller = new AbortController();
    const stopped = lm.generate("abc", { ...greedy, signal: controller.signal });
    let count = 0;
    const read = async (): Promise<void> => {
      for await (const _ of stopped) if (++count === 3) controller.abort(new Error("enough"));
    };
    expect(await refusal(read())).toBe(controller.signal.reason);
    expect(count).toBe(3);
    for await (const _ of lm.generate("abc", greedy)) break;
    const texts = await Promise.all(
      ["a", "b", "c"].map((prompt) => lm.generate(prompt, { ...greedy, maxTokens: 5 }).text()),
    );
    const alone: string[] = [];
    for (const prompt of ["a", "b", "c"]) alone.push(await local.generate(prompt, { ...greedy, maxTokens: 5 }).text());
    expect(texts).toEqual(alone);
  });

  test("holds conversations", async () => {
    const options = { ...greedy, maxTokens: 4 };
    const [remote, own] = [
      lm.chat([{ role: "system", content: "s" }], options),
      local.chat([{ role: "system", content: "s" }], options),
    ];
    for (const said of ["one", "two"]) expect(await remote.send(said).text()).toBe(await own.send(said).text());
    for await (const _ of remote.send("three")) break;
    remote.undo();
    own.undo();
    remote.rewindTo(1);
    own.rewind(1);
    expect(remote.messages).toEqual(own.messages);
    expect(await remote.send("four").text()).toBe(await own.send("four").text());
    expect(() => remote.undo(3)).toThrow(/the conversation has 2 turns and cannot take back 3/);
    expect(() => remote.rewind(7)).toThrow(/the conversation has 2 turns and cannot go back to 7/);
    await remote.release();
    own.release();
    expect(await refusal(remote.send("five").text())).toMatchObject({ code: "released" });
  });

  test("a conversation forks: the two go on apart, from what they have in common", async () => {
    const options = { ...greedy, maxTokens: 4 };
    const [remote, own] = [lm.chat([], options), local.chat([], options)];
    expect(await remote.send("one").text()).toBe(await own.send("one").text());
    const [remoteFork, ownFork] = [remote.fork(), own.fork()];
    expect(await remoteFork.send("two").text()).toBe(await ownFork.send("two").text());
    const [answer, wanted] = [remote.send("three"), own.send("three")];
    expect(await answer.text()).toBe(await wanted.text());
    expect(answer.summary!.reusedTokens).toBeGreaterThan(0);
    expect([remote.messages, remoteFork.messages]).toEqual([own.messages, ownFork.messages]);
    const reading = own.send("four")[Symbol.asyncIterator]();
    await reading.next();
    expect(() => own.fork()).toThrow(/the previous answer is still being generated/);
    await reading.return(undefined);
    for (const chat of [own, ownFork]) chat.release();
    for (const chat of [remote, remoteFork]) await chat.release();
  });

  test("makes batches, samples and beams as the library does", async () => {
    const options = { ...greedy, maxTokens: 6 };
    const read = async (tokens: AsyncIterable<{ sample: number; token: number }>): Promise<string[]> => {
      const found: string[] = [];
      for await (const { sample, token } of tokens) found.push(`${sample}:${token}`);
      return found;
    };
    expect(await read(lm.generateBatch(["a", "bc"], options))).toEqual(
      await read(local.generateBatch(["a", "bc"], options)),
    );
    for await (const _ of lm.generateBatch(["a", "bc"], options)) break;
    const drawn = { temperature: 1, seed: 3, ignoreEnd: true, maxTokens: 6 };
    const [remote, own] = [await lm.samples("abc", 3, drawn), await local.samples("abc", 3, drawn)];
    expect(await Promise.all(remote.map((text) => text.text()))).toEqual([
      await own[0].text(),
      await own[1].text(),
      await own[2].text(),
    ]);
    expect(remote[1].summary).toMatchObject({ newTokens: 6, seed: 4 });
    expect(await lm.beamSearch("abc", { beams: 2, maxTokens: 5 })).toEqual(
      await local.beamSearch("abc", { beams: 2, maxTokens: 5 }),
    );
    const given = AbortSignal.abort(new Error("no"));
    expect(await refusal(lm.beamSearch("abc", { signal: given }))).toBe(given.reason);
    const late = new AbortController();
    const searched = lm.beamSearch("abc", { beams: 8, maxTokens: 100, signal: late.signal });
    late.abort(new Error("too late"));
    expect(await refusal(searched)).toBe(late.signal.reason);
    expect(await refusal(lm.samples("abc", 0))).toMatchObject({
      code: "invalid-argument",
      message: "option count must be a whole number from 1 to 65536, got 0",
    });
    expect(await refusal(lm.beamSearch("abc", { beams: 0 }))).toMatchObject({ code: "invalid-argument" });
  });

  test("saves and restores contexts, across threads too", async () => {
    await lm.generate("abcdef", { ...greedy, maxTokens: 8 }).text();
    const bytes = await lm.saveContext();
    const other = await here.CausalLM.load(folder.path, { threads: 1 });
    await other.restoreContext(bytes);
    const went = other.generate("abcdef", { ...greedy, maxTokens: 8 });
    await went.text();
    expect(went.summary.reusedTokens).toBe(went.summary.promptTokens - 1);
    await lm.restoreContext(bytes);
    expect(await refusal(lm.restoreContext(bytes.subarray(0, 9)))).toMatchObject({ code: "invalid-state" });
    await other.release();
  });

  test("has a tokenizer, defaults and an explanation with the same contents", async () => {
    const { tokenizer } = lm;
    expect([tokenizer.hasChatTemplate, tokenizer.endToken]).toEqual([
      local.tokenizer.hasChatTemplate,
      local.tokenizer.endToken,
    ]);
    expect(await tokenizer.encode("wolf", { specialTokens: false })).toEqual(
      local.tokenizer.encode("wolf", { specialTokens: false }),
    );
    expect(await tokenizer.spellingOf(65)).toBe(local.tokenizer.spellingOf(65));
    expect(await tokenizer.tokenOf("a")).toBe(local.tokenizer.tokenOf("a"));
    const said = [{ role: "user", content: "hi" }];
    expect(await refusal(tokenizer.renderChat(said).then((text) => text === local.tokenizer.renderChat(said)))).toEqual(
      local.tokenizer.hasChatTemplate ? "nothing was refused" : expect.objectContaining({ code: "invalid-argument" }),
    );
    expect(lm.defaults).toEqual(local.defaults);
    const { caches } = await lm.explain({ json: true });
    expect(caches.map(({ input, inPlace, reason }) => [input, inPlace, reason])).toEqual(
      local.session.explain({ json: true }).caches.map(({ input, inPlace, reason }) => [input, inPlace, reason]),
    );
    expect(await lm.pages()).toBeUndefined();
  });

  test("keeps texts to a schema, and shows its pages", async () => {
    const paged = await CausalLM.load(undefined, { threads: 1, cache: "paged", blocks: 32 });
    try {
      const jsonSchema = { type: "object", properties: { tall: { type: "boolean" } }, required: ["tall"] };
      const text = await paged.generate("Is the wolf tall? ", { jsonSchema, maxTokens: 60, seed: 1 }).text();
      expect(JSON.parse(text)).toEqual({ tall: expect.any(Boolean) });
      const pages = (await paged.pages())!;
      expect(pages.blocks).toHaveLength(32);
      expect(pages.statistics.used).toBe(pages.blocks.filter(({ state }) => state === "used").length);
      expect(pages.statistics.used).toBeGreaterThan(0);
      expect(pages.blockBytes).toBeGreaterThan(1000);
    } finally {
      await paged.release();
    }
  });

  test("errors cross with their class, code and words", async () => {
    const empty = await refusal(lm.generate("").text());
    expect(empty).toBeInstanceOf(InsituError);
    expect(empty).toMatchObject({ code: "invalid-argument", message: expect.stringMatching(/^the prompt is empty/) });
    const negative = await refusal(lm.generate("a", { maxTokens: -1 }).text());
    expect([negative instanceof InsituError, negative instanceof RangeError]).toEqual([true, true]);
    expect(await refusal(lm.chat([], { maxTokens: -1 }).send("a").text())).toMatchObject({ code: "invalid-argument" });
    expect(await refusal(CausalLM.load(`${folder.path}/nowhere`))).toMatchObject({ code: "invalid-model" });
    expect(await refusal(CausalLM.load(folder.path, { change: (model) => model }))).toMatchObject({
      code: "invalid-argument",
      message: expect.stringContaining("change is a function, and functions do not cross to a worker"),
    });
    expect(() => lm.generate("a", { templateOptions: { tools: [() => 1] } })).toThrow(/cannot be sent to a worker/);
  });

  test("has every name that the library's model has, and its chats, texts and tokenizer", () => {
    const names = (of: object): string[] =>
      of === Object.prototype ? [] : [...Object.getOwnPropertyNames(of), ...names(Object.getPrototypeOf(of) as object)];
    const lacking = (own: object, remote: object): string[] =>
      [...new Set(names(own))].filter((name) => !names(remote).includes(name)).toSorted();
    // For servers, which have the model in their own thread; a session of one's own is InferenceSession of insitu/worker.
    const forServers = ["constrain", "dialogue", "forServers", "pagedDecoder", "session", "source"];
    // A head guesses in the thread that has the model, as drafts do.
    expect(lacking(local, lm)).toEqual([...forServers, "loadHead"].toSorted());
    expect(lacking(local.chat(), lm.chat())).toEqual([]);
    expect(lacking(local.generate("a"), lm.generate("a"))).toEqual([]);
    expect(lacking(local.reply([{ role: "user", content: "a" }]), lm.reply([{ role: "user", content: "a" }]))).toEqual(
      [],
    );
    const steps = ["bytesOf", "encodeChatSteps", "encodeSteps", "grammarVocabulary", "templateSource"];
    expect(lacking(local.tokenizer, lm.tokenizer)).toEqual(steps);
    // A draft is a model, and lives in a thread of its own.
    for (const draft of [local, lm])
      expect(() => lm.generate("a", { speculate: { draft: draft as never } })).toThrow(
        /speculate\.draft is a model, and a model does not cross/,
      );
  });

  test("a loading that nobody wants any more ends with its thread", async () => {
    const stop = new AbortController();
    const loading = CausalLM.load(folder.path, { threads: 1, hub: { signal: stop.signal } });
    stop.abort(new Error("another one"));
    expect(await refusal(loading)).toMatchObject({ message: "another one" });
    const late = CausalLM.load(folder.path, { hub: { signal: stop.signal } });
    expect(await refusal(late)).toMatchObject({ message: "another one" });
    expect(await refusal(CausalLM.load(folder.path, { hub: { signal: 7 as never } }))).toMatchObject({
      code: "invalid-argument",
    });
    const other = await CausalLM.load(folder.path, { threads: 1, hub: { signal: new AbortController().signal } });
    expect(await other.decode(await other.encode("wolf"))).toBe("wolf");
    await other.release();
  });

  test("a thread that was released refuses, and its texts end", async () => {
    const other = await CausalLM.load(folder.path, { threads: 1 });
    const reading = other.generate("abc", greedy)[Symbol.asyncIterator]();
    await reading.next();
    await other.release();
    await other.release();
    expect(await refusal(other.encode("a"))).toMatchObject({ code: "released" });
    expect(() => other.generate("a")).toThrow(/the model was released/);
    await reading.return(undefined);
  });
});

test("replies to messages, with tools that run on this side; objects and bytes as they come", async () => {
  const options = { threads: 1, chatTemplate: hermesTemplate };
  const [remote, own] = [await CausalLM.load(undefined, options), await here.CausalLM.load(undefined, options)];
  const parameters = { type: "object", properties: { city: { enum: ["Bern", "Ulm"] } }, required: ["city"] };
  const asked: unknown[] = [];
  const tools = { weather: { parameters, execute: (given: unknown) => (asked.push(given), "warm") } };
  const messages = [{ role: "user", content: "How warm is it?" }];
  const given = { seed: 7, maxTokens: 90, tools, toolChoice: "required" as const, parallelToolCalls: false };
  const events = async (from: Pick<CausalLM | here.CausalLM, "reply">): Promise<unknown[]> => {
    const all: unknown[] = [];
    // Calls have names of their own.
    for await (const event of from.reply(messages, given).events())
      all.push(JSON.stringify(event).replace(/call_\w+/g, "call"));
    return all;
  };
  const wanted = await events(own);
  expect(wanted.join()).toContain("tool-result");
  expect(await events(remote)).toEqual(wanted);
  expect(asked).toHaveLength(2);

  const schema = { type: "object", properties: { name: { type: "string", maxLength: 9 } }, required: ["name"] };
  const object = await remote.streamObject<{ name: string }>(schema, "A hero:", { seed: 1 });
  const states: unknown[] = [];
  for await (const state of object) states.push(state);
  expect(states.length).toBeGreaterThan(1);
  expect(await object.object()).toEqual((await own.generateObject(schema, "A hero:", { seed: 1 })).object);
  const text = new Response(remote.generate("The wolf", { seed: 1, maxTokens: 8 }).toReadableStream()).text();
  expect(await text).toBe(await own.generate("The wolf", { seed: 1, maxTokens: 8 }).text());
  await Promise.all([remote.release(), own.release()]);
});

test("embeds and ranks as the library does", async () => {
  const place = mkdtempSync(join(tmpdir(), "insitu-worker-"));
  const texts = ["w5 w6", "w7", "w8 w9 w10"];
  for (const write of [(at: string) => writeEncoder(at, "mean_tokens"), writeRanker]) {
    const at = write(join(place, write === writeRanker ? "ranker" : "encoder"));
    const remote = await EmbeddingModel.load(at, { threads: 1 });
    const own = await library.EmbeddingModel.load(at, { threads: 1 });
    for (const name of ["config", "pooling", "isCrossEncoder", "prompts", "maxTokens"] as const)
      expect(remote[name]).toEqual(own[name]);
    expect(remote.backend).toBe("wasm");
    expect(await remote.rank("w5", texts)).toEqual(await own.rank("w5", texts));
    const vectors = await refusal(remote.embed(texts));
    if (own.isCrossEncoder) expect(vectors).toMatchObject({ code: "invalid-argument" });
    else expect(await remote.embed(texts)).toEqual(await own.embed(texts));
    await expect(remote.embed("w5", { signal: AbortSignal.abort(new Error("not any more")) })).rejects.toThrow(
      "not any more",
    );
    await Promise.all([remote.release(), own.release()]);
  }
  expect(await refusal(EmbeddingModel.load(join(place, "nowhere")))).toMatchObject({ code: "invalid-model" });
  rmSync(place, { recursive: true });
});

test("a session runs there too: states stay, feeds are copied, results are handed over", async () => {
  const model = writeModel(generatedDecoder());
  const [remote, own] = [
    await InferenceSession.create(model, { threads: 1 }),
    await here.InferenceSession.create(model, { threads: 1 }),
  ];
  const ids = (...values: number[]): Tensor =>
    new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  const dims = { batch: 1, capacity: 16 };
  const [state, wanted] = [await remote.createState({ dims }), own.createState({ dims })];
  const feeds = { input_ids: ids(1, 2, 3), position_ids: ids(0, 1, 2) };
  const { logits } = await remote.run(feeds, { state });
  expect(logits.data).toEqual((await own.run(feeds, { state: wanted }))["logits"].data);
  expect(feeds.input_ids.data).toHaveLength(3);
  expect(state.lengths).toEqual([3]);
  const fork = await state.fork();
  const saved = await state.save();
  await state.rewind(2);
  expect([state.lengths, fork.lengths]).toEqual([[2], [3]]);
  await state.restore(saved);
  expect(state.lengths).toEqual([3]);
  const [name] = state.names;
  expect((await state.get(name)).data).toEqual(wanted.get(name).data);
  expect(
    Object.keys(await remote.run({ input_ids: ids(4), position_ids: ids(3) }, ["logits"], { state: fork })),
  ).toEqual(["logits"]);
  expect([remote.inputNames, remote.backend]).toEqual([own.inputNames, "wasm"]);
  expect(await remote.explain()).toContain("in place");
  await fork.release();
  expect(await refusal(fork.rewind(0))).toMatchObject({ code: "invalid-state" });
  expect(await refusal(remote.run({}, { state }))).toMatchObject({ code: "invalid-feed" });
  await Promise.all([remote.release(), own.release()]);
});
