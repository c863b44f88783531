// Text on pages: the same greedy text as from linear caches, however it is made; beginnings are shared between conversations.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { rowsOf } from "../../src/cache/block-pool.js";
import { CausalLM } from "../../src/entry/node.js";
import type { GeneratedToken } from "../../src/generate/generation.js";
import { expectSameTokens, tokensOf } from "../generate/support.js";

const prompts = [
  "Once upon a time there was a king who had",
  "The wolf",
  "In a little house at the edge of the forest there lived an old woman, and she said to her daughter:",
];
const greedy = { maxTokens: 64, temperature: 0 } as const;
let lm: CausalLM;
let wanted: GeneratedToken[][];

beforeAll(async () => {
  const linear = await CausalLM.load(undefined, { inPlace: "require" });
  wanted = [];
  for (const prompt of prompts) wanted.push(await tokensOf(linear.generate(prompt, { ...greedy, logprobs: 2 })));
  await linear.release();
  lm = await CausalLM.load(undefined, { inPlace: "require", cache: "paged" });
});
afterAll(() => lm.release());

describe("the same greedy text", () => {
  test.each([0, 1, 2])("of prompt %i", async (at) => {
    expectSameTokens(await tokensOf(lm.generate(prompts[at], greedy)), wanted[at], `pages, prompt ${at}`);
  });

  test.each([1, 128])("with blocks of %i rows", async (blockSize) => {
    const other = await CausalLM.load(undefined, { inPlace: "require", cache: "paged", blockSize, context: 128 });
    expectSameTokens(await tokensOf(other.generate(prompts[0], greedy)), wanted[0], `blocks of ${blockSize}`);
    await other.release();
  });

  test("in a batch of prompts of different lengths", async () => {
    const made: GeneratedToken[][] = prompts.map(() => []);
    for await (const token of lm.generateBatch(prompts, greedy)) made[token.sample].push(token);
    made.forEach((tokens, index) => expectSameTokens(tokens, wanted[index], `batch, prompt ${index}`));
  });

  test("in a batch that reads common beginnings once, and finished texts no more", async () => {
    const own = await CausalLM.load(undefined, { inPlace: "require", cache: "paged", keep: 0 });
    const ends = ["", " and a queen", ", and one day the king", " and a queen, who had no"];
    const texts = [...ends.map((end) => prompts[2] + end), prompts[1], prompts[2]];
    const run = vi.spyOn(own.pages!, "run");
    const made: GeneratedToken[][] = texts.map(() => []);
    const options = { ...greedy, maxTokens: 16, stop: [" of", " her"] };
    for await (const token of own.generateBatch(texts, options)) made[token.sample].push(token);
    const runs = run.mock.calls.map(([entries]) => entries.reduce((sum, { tokens }) => sum + rowsOf(tokens), 0));
    const encoded = texts.map((text) => own.tokenizer.encode(text));
    const all = encoded.reduce((sum, { length }) => sum + length, 0);
    const common = Math.floor(encoded[0].length / 16) * 16;
    expect(common).toBeGreaterThanOrEqual(16);
    // Of each text all but the last token is read.
    const read = made.reduce((sum, { length }) => sum + length - 1, 0);
    expect(new Set(made.map(({ length }) => length)).size).toBeGreaterThan(1);
    expect(runs.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(all - 4 * common + read);
    expect(own.pages!.pool.statistics.used).toBe(0);
    for (const [index, text] of texts.entries())
      expectSameTokens(
        made[index],
        await tokensOf(own.generate(text, { ...options, logprobs: 2 })),
        `batch with a common beginning, text ${index}`,
      );
    await own.release();
  });

  test("with guesses that are checked", async () => {
    const guessing = lm.generate(prompts[0], { ...greedy, speculate: { ngram: 2, draft: 4, adaptive: false } });
    expectSameTokens(await tokensOf(guessing), wanted[0], "speculative");
    expect(guessing.summary.rightGuesses).toBeGreaterThan(0);
  });

  test("in forks that run side by side, which share the prompt's blocks", async () => {
    const samples = await lm.samples(prompts[2], 3, greedy);
    const iterators = samples.map((sample) => sample[Symbol.asyncIterator]());
    const made: GeneratedToken[][] = samples.map(() => []);
    for (let step = 0; step < 64; step++)
      for (const [index, iterator] of iterators.entries()) {
        const { value } = await iterator.next();
        if (value) made[index].push(value);
        if (step === 30 && index === 2) expect(lm.pages!.pool.statistics.shared).toBeGreaterThan(0);
      }
    for (const iterator of iterators) await iterator.return(undefined);
    made.forEach((tokens, index) => expectSameTokens(tokens, wanted[2], `fork ${index}`));
  });

  test("after saving in the middle and restoring on other pages", async () => {
    const first = await tokensOf(lm.generate(prompts[0], { ...greedy, maxTokens: 20 }));
    const other = await CausalLM.load(undefined, { inPlace: "require", cache: "paged" });
    await other.restoreContext(await lm.saveContext());
    const tokens = [...lm.tokenizer.encode(prompts[0]), ...first.map(({ token }) => token)];
    const rest = other.generate(tokens, { ...greedy, maxTokens: 44 });
    expectSameTokens([...first, ...(await tokensOf(rest))], wanted[0], "restored");
    expect(rest.summary.reusedTokens).toBe(tokens.length - 1);
    await other.release();
  });

  test("and the same beams", async () => {
    const linear = await CausalLM.load(undefined, { inPlace: "require" });
    const search = (model: CausalLM) => model.beamSearch(prompts[1], { beams: 3, maxTokens: 8 });
    const [expected, found] = [await search(linear), await search(lm)];
    expect(found.map(({ text }) => text)).toEqual(expected.map(({ text }) => text));
    await linear.release();
  });
});

test("a conversation goes on from what was read, and others share its opening", async () => {
  const opening = [
    { role: "system", content: "Long ago, when wishing still helped, there lived a king in a great castle." },
  ];
  const chat = lm.chat(opening, { ...greedy, maxTokens: 24 });
  await chat.send("There was once a poor miller.").text();
  const second = chat.send("One day he met the devil.");
  await second.text();
  expect(second.summary.reusedTokens).toBeGreaterThan(30);
  const other = lm.chat(opening, { ...greedy, maxTokens: 8 });
  const reply = other.send("There was once a rich merchant.");
  await reply.text();
  expect(reply.summary.reusedTokens).toBeGreaterThanOrEqual(16);
  expect(lm.pages!.pool.statistics.shared).toBeGreaterThan(0);
  chat.release();
  other.release();
});

test("a context that slides says what it says in linear caches", async () => {
  const told = async (cache: "linear" | "paged"): Promise<string> => {
    const model = await CausalLM.load(undefined, { inPlace: "require", context: 48, cache });
    const text = await model.generate(prompts[0], { temperature: 0, maxTokens: 90, whenFull: "slide" }).text();
    await model.release();
    return text;
  };
  expect(await told("paged")).toBe(await told("linear"));
});

test("pages give back what texts let go of", async () => {
  const own = await CausalLM.load(undefined, { inPlace: "require", cache: "paged", keep: 0 });
  for (const prompt of prompts) await own.generate(prompt, { ...greedy, maxTokens: 8 }).text();
  expect(own.pages!.pool.statistics.used).toBe(0);
  expect(own.pages!.pool.sequences).toHaveLength(0);
  await own.release();
});

test("a pool that is too small names who holds it", async () => {
  const own = await CausalLM.load(undefined, { inPlace: "require", cache: "paged", blocks: 3, context: 64 });
  await expect(own.generate(prompts[0], greedy).text()).rejects.toThrow(
    /the pool of 3 blocks of 16 rows is full: 1 rows of "sequence 1" needs? 1 more, 0 are left; "sequence 1" holds 3/,
  );
  await own.release();
});

test("options", async () => {
  const load = (options: object) => CausalLM.load(undefined, options);
  await expect(load({ cache: "ring" })).rejects.toThrow('option cache must be "linear" or "paged", got "ring"');
  await expect(load({ cacheType: "int8" })).rejects.toThrow('option cacheType is for pages: ask for cache: "paged"');
  await expect(load({ cache: "paged", cacheType: "int4" })).rejects.toThrow(
    "option cacheType must be one of same, int8",
  );
  await expect(load({ cache: "paged", blockSize: 0 })).rejects.toThrow(
    "option blockSize must be a whole number from 1",
  );
});
