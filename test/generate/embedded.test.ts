// The embedded model: however its text is made, it is the same text. Sums taken in another order may change it at a tie, which is listed.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import type { GeneratedToken } from "../../src/generate/generation.js";
import { expectSameTokens, tokensOf } from "./support.js";
import { soak } from "../support/soak.js";

const prompts = [
  "Once upon a time there was a king who had",
  "The wolf",
  "In a little house at the edge of the forest there lived an old woman, and she said to her daughter:",
];
/** As many threads as nobody has who asks for none: those are one in the tests, and in the soak as many as there are cores. */
const otherThreads = soak ? 1 : 2;
const greedy = { maxTokens: 64, temperature: 0 } as const;
let lm: CausalLM;
let wanted: GeneratedToken[][];

beforeAll(async () => {
  lm = await CausalLM.load(undefined, { inPlace: "require" });
  wanted = [];
  for (const prompt of prompts) wanted.push(await tokensOf(lm.generate(prompt, { ...greedy, logprobs: 2 })));
});
afterAll(() => lm.release());

/** What another way of loading the model makes of a prompt. */
async function loaded(
  options: Parameters<typeof CausalLM.load>[1],
  prompt = prompts[0],
  maxTokens: number = greedy.maxTokens,
): Promise<GeneratedToken[]> {
  const other = await CausalLM.load(undefined, { inPlace: "require", ...options });
  try {
    return await tokensOf(other.generate(prompt, { ...greedy, maxTokens }));
  } finally {
    await other.release();
  }
}

describe("the same greedy text", () => {
  test.each(soak ? [1, 2, 5, 7, 16] : [1, 7])("with prompts read %i tokens at a time", async (chunk) => {
    expectSameTokens(await loaded({ chunk }, prompts[2]), wanted[2], `chunk ${chunk}`);
  });

  test("with another number of threads", async () =>
    expectSameTokens(await loaded({ threads: otherThreads }), wanted[0], `threads: ${otherThreads}`));

  // The reference implementation takes a second or so for each token; whole-text.test.ts has it read many at once.
  test("on the reference backend", async () => {
    const count = soak ? 64 : 2;
    expectSameTokens(await loaded({ backend: "reference" }, prompts[1], count), wanted[1].slice(0, count), "reference");
  });

  test("without relaxed SIMD", async () =>
    expectSameTokens(await loaded({ wasm: { relaxedSimd: false } }), wanted[0], "plain SIMD"));

  test("in a batch of prompts of different lengths", async () => {
    const made: GeneratedToken[][] = prompts.map(() => []);
    for await (const token of lm.generateBatch(prompts, greedy)) made[token.sample].push(token);
    made.forEach((tokens, index) => expectSameTokens(tokens, wanted[index], `batch, prompt ${index}`));
    expect(made.map((tokens) => tokens.map(({ text }) => text).join(""))).toHaveLength(3);
  });

  test("with guesses that are checked", async () => {
    const guessing = lm.generate(prompts[0], {
      ...greedy,
      maxTokens: 64,
      speculate: { ngram: 2, draft: 4, adaptive: false },
    });
    expectSameTokens(await tokensOf(guessing), wanted[0], "speculative");
    expect(guessing.summary.rightGuesses).toBeGreaterThan(0);
    const sampled = (speculate: boolean) =>
      lm.generate(prompts[0], { maxTokens: 64, seed: 3, temperature: 0.7, speculate });
    const [plain, guessed] = [await sampled(false).text(), await sampled(true).text()];
    expect(guessed).toBe(plain);
  });

  test("continued from where another generation stopped, whose tokens are not read again", async () => {
    const first = await tokensOf(lm.generate(prompts[0], { ...greedy, maxTokens: 20 }));
    const tokens = [...lm.tokenizer.encode(prompts[0]), ...first.map(({ token }) => token)];
    const rest = lm.generate(tokens, { ...greedy, maxTokens: 44 });
    expectSameTokens([...first, ...(await tokensOf(rest))], wanted[0], "continued");
    expect(rest.summary.reusedTokens).toBe(tokens.length - 1);
  });

  test("after saving in the middle and restoring in another model", async () => {
    const first = await tokensOf(lm.generate(prompts[0], { ...greedy, maxTokens: 20 }));
    const saved = await lm.saveContext();
    const other = await CausalLM.load(undefined, { inPlace: "require" });
    // As it comes from a file: a Buffer, and not at the beginning of its memory.
    await other.restoreContext(Buffer.concat([Buffer.alloc(3), saved]).subarray(3));
    const tokens = [...lm.tokenizer.encode(prompts[0]), ...first.map(({ token }) => token)];
    const rest = other.generate(tokens, { ...greedy, maxTokens: 44 });
    expectSameTokens([...first, ...(await tokensOf(rest))], wanted[0], "restored");
    expect(rest.summary.reusedTokens).toBe(tokens.length - 1);
    await other.release();
  });

  test("in forks that run side by side", async () => {
    const samples = await lm.samples(prompts[0], 3, greedy);
    const iterators = samples.map((sample) => sample[Symbol.asyncIterator]());
    const made: GeneratedToken[][] = samples.map(() => []);
    for (let step = 0; step < 64; step++)
      for (const [index, iterator] of iterators.entries()) {
        const { value } = await iterator.next();
        if (value) made[index].push(value);
      }
    for (const iterator of iterators) await iterator.return(undefined);
    made.forEach((tokens, index) => expectSameTokens(tokens, wanted[0], `fork ${index}`));
  });

  test("in a conversation, against the whole of it as one prompt", async () => {
    const chat = lm.chat([], { ...greedy, maxTokens: 24 });
    await chat.send("There was once a poor miller.").text();
    const second = chat.send("One day he met the devil.");
    const made = await tokensOf(second);
    expect(second.summary.reusedTokens).toBeGreaterThan(8);
    const whole = chat.messages.slice(0, -1).map(({ content }) => `${content.trim()}\n`);
    const alone = await tokensOf(lm.generate(whole.join(""), { ...greedy, maxTokens: 24, stop: "\n", logprobs: 2 }));
    expectSameTokens(made, alone, "chat");
    chat.release();
  });
});

test("a turn that is taken back leaves no trace", async () => {
  const chat = lm.chat([], { ...greedy, maxTokens: 16 });
  await chat.send("There was once a poor miller.").text();
  const said = chat.messages;
  const first = await chat.send("One day he met the devil.").text();
  chat.rewind(1);
  expect(chat.messages).toEqual(said);
  await chat.send("His wife was very angry with him.").text();
  chat.rewind(1);
  expect(await chat.send("One day he met the devil.").text()).toBe(first);
  expect(() => chat.rewind(3)).toThrow(/has 2 turns and cannot go back to 3/);
  expect(() => chat.rewindTo(-1)).toThrow(/has 2 turns and cannot go back to -1/);
  expect(() => chat.undo(3)).toThrow(/has 2 turns and cannot take back 3/);
  chat.undo(0);
  expect(chat.turns).toBe(2);
  chat.undo();
  expect(chat.turns).toBe(1);
  chat.rewindTo(0);
  expect(chat.turns).toBe(0);
  chat.release();
});

test("what is wrong with a call is told in its own words", async () => {
  for (const call of [
    () => lm.generate([1, 2, 99_999]),
    () => lm.generateBatch([[1, 2, 99_999]]),
    () => lm.beamSearch([1, 2, 4096 + 95_903]),
  ])
    await expect((async () => call())()).rejects.toThrow(
      "a prompt's tokens must be below 4096, the size of the vocabulary, got 99999 at 2",
    );
  expect(() => lm.generate("Once", { temperature: "0.5" as never })).toThrow(
    'option temperature must be a number from 0 on, got "0.5"',
  );
  const fresh = await CausalLM.load(undefined, { keep: 0 });
  await fresh.generate("Once", { ...greedy, maxTokens: 2 }).text();
  await expect(fresh.saveContext()).rejects.toThrow(/no context to save: generate first, .*keep: 1 or more/);
  await fresh.release();
});

test("the same seed tells the same story, whatever was told before and on however many threads", async () => {
  const tell = (seed: number, by = lm): Promise<string> =>
    by.generate(prompts[1], { maxTokens: 30, seed, repetitionPenalty: 1.1, presencePenalty: 0.2, minP: 0.02 }).text();
  const first = await tell(5);
  expect(await tell(6)).not.toBe(first);
  expect(await tell(5)).toBe(first);
  const other = await CausalLM.load(undefined, { threads: otherThreads });
  expect(await tell(5, other)).toBe(first);
  await other.release();
});

test("penalties reach the text: what was there comes less often", async () => {
  const distinct = async (options: object): Promise<number> =>
    new Set((await tokensOf(lm.generate(prompts[0], { ...greedy, ...options }))).map(({ token }) => token)).size;
  const plain = await distinct({});
  expect(await distinct({ repetitionPenalty: 1.5 })).toBeGreaterThan(plain);
  expect(await distinct({ presencePenalty: 4 })).toBeGreaterThan(plain);
  expect(await distinct({ frequencyPenalty: 4 })).toBeGreaterThan(plain);
});

test("log-probabilities belong to the tokens", () => {
  for (const { token, logprob, top } of wanted[0]) {
    expect(top![0].token).toBe(token);
    expect(logprob).toBeCloseTo(top![0].logprob, 5);
    expect(logprob).toBeLessThanOrEqual(0);
  }
});

test("beam search finds texts at least as likely as the greedy one", async () => {
  const length = 12;
  const found = await lm.beamSearch(prompts[1], { beams: 4, maxTokens: length });
  expect(found).toHaveLength(4);
  const greedySum = wanted[1].slice(0, length).reduce((sum, { logprob }) => sum + logprob!, 0);
  expect(found[0].score * length).toBeGreaterThanOrEqual(greedySum - 1e-3);
  expect(found.map(({ score }) => score)).toEqual(found.map(({ score }) => score).toSorted((a, b) => b - a));
  expect(new Set(found.map(({ text }) => text)).size).toBe(4);
  const [greedyBeam] = await lm.beamSearch(prompts[1], { beams: 1, maxTokens: length });
  expectSameTokens(
    greedyBeam.tokens.map((token) => ({ token })),
    wanted[1].slice(0, length),
    "one beam",
  );
});

test("stops: at a text, a token, a number of tokens, a signal, by leaving the loop", async () => {
  const whole = wanted[0].map(({ text }) => text).join("");
  const word = whole.slice(40, 48);
  const stopped = lm.generate(prompts[0], { ...greedy, stop: [word, "no such text"] });
  expect(await stopped.text()).toBe(whole.slice(0, whole.indexOf(word)));
  expect(stopped.summary.finishReason).toBe("stop");
  const { token } = wanted[0][9];
  const atToken = lm.generate(prompts[0], { ...greedy, stopTokens: [token] });
  expect(await tokensOf(atToken)).toHaveLength(wanted[0].findIndex((made) => made.token === token));
  expect(atToken.summary.finishReason).toBe("end");
  const none = lm.generate(prompts[0], { maxTokens: 0 });
  expect([await none.text(), none.summary.finishReason]).toEqual(["", "length"]);
  const controller = new AbortController();
  const aborted = lm.generate(prompts[0], { ...greedy, signal: controller.signal });
  const reading = async (): Promise<void> => {
    for await (const _ of aborted) if (aborted.summary.newTokens === 5) controller.abort();
  };
  await expect(reading()).rejects.toThrow(/abort/i);
  expect(aborted.summary).toMatchObject({ newTokens: 5, finishReason: "unfinished" });
  const left = lm.generate(prompts[0], greedy);
  for await (const _ of left) if (left.summary.newTokens === 3) break;
  await expect(left.text()).rejects.toThrow(/iterated once/);
  expectSameTokens(await tokensOf(lm.generate(prompts[0], greedy)), wanted[0], "afterwards");
});

test("a signal in the middle of a long prompt ends its reading; what was read is not read again", async () => {
  const other = await CausalLM.load(undefined, { inPlace: "require", chunk: 8 });
  const prompt = Array.from({ length: 400 }, (_, at) => 300 + ((at * 37) % 3000));
  const controller = new AbortController();
  const generation = other.generate(prompt, { ...greedy, maxTokens: 4, signal: controller.signal });
  const reading = tokensOf(generation);
  let turns = 0;
  const tick = (): void => void (++turns === 12 ? controller.abort(new Error("enough")) : setImmediate(tick));
  setImmediate(tick);
  await expect(reading).rejects.toThrow("enough");
  expect(generation.summary).toMatchObject({ newTokens: 0, finishReason: "unfinished" });
  const again = other.generate(prompt, { ...greedy, maxTokens: 4 });
  const tokens = await tokensOf(again);
  expect(again.summary.reusedTokens).toBeGreaterThan(0);
  expect(again.summary.reusedTokens).toBeLessThan(399);
  expect(again.summary.reusedTokens % 8).toBe(0);
  const fresh = await tokensOf(lm.generate(prompt, { ...greedy, maxTokens: 4, logprobs: 2 }));
  expectSameTokens(tokens, fresh, "after a signal");
  const never = other.generate(prompt, { signal: AbortSignal.abort(new Error("not at all")) });
  await expect(never.text()).rejects.toThrow("not at all");
  await other.release();
});

test("prompts that begin alike are read from where they differ: as many rows are written as are new", async () => {
  const other = await CausalLM.load(undefined, { inPlace: "require", keep: 2 });
  const row = 12 * 128 * 4;
  const story = other.tokenizer.encode(prompts[2]);
  const ask = async (prompt: readonly number[]): Promise<readonly [reused: number, rows: number]> => {
    const generation = other.generate(prompt, { ...greedy, maxTokens: 1 });
    await generation.text();
    return [generation.summary.reusedTokens, generation.summary.writtenBytes / row];
  };
  const n = story.length;
  expect(await ask(story)).toEqual([0, n]);
  expect(await ask(story)).toEqual([n - 1, 1]);
  expect(await ask([...story, 700, 701])).toEqual([n, 2]);
  expect(await ask([...story.slice(0, 5), 900, 901])).toEqual([5, 2]);
  // The first context was taken back to what the two have in common: a second one is kept beside it.
  expect(await ask([2000, 2001])).toEqual([0, 2]);
  await other.release();
});

test("batches: each text ends for its own reason, a full context included", async () => {
  const small = await CausalLM.load(undefined, { inPlace: "require", context: 24 });
  const ends = new Map<number, string | undefined>();
  const made = prompts.slice(0, 2).map(() => 0);
  for await (const { sample, finishReason } of small.generateBatch(prompts.slice(0, 2), { temperature: 0 })) {
    made[sample]++;
    if (finishReason !== undefined) ends.set(sample, finishReason);
  }
  const lengths = prompts.slice(0, 2).map((prompt) => small.tokenizer.encode(prompt).length);
  expect([...ends.values()]).toEqual(["context", "context"]);
  expect(made).toEqual(lengths.map((length) => 24 - length + 1));
  const failing = async (): Promise<void> => {
    for await (const _ of small.generateBatch(prompts.slice(0, 2), { temperature: 0, whenFull: "error" }));
  };
  await expect(failing()).rejects.toThrow(/context of 24 tokens is full/);
  expect(() => small.generate([{ role: "user", content: "x" }])).toThrow(/the model has no chat template/);
  await small.release();
});

test("nothing is moved, and the summary adds up", async () => {
  const generation = lm.generate(prompts[1], greedy);
  await generation.text();
  const { summary } = generation;
  const rows = summary.promptTokens - summary.reusedTokens + summary.newTokens - 1;
  expect(summary).toMatchObject({
    newTokens: 64,
    movedBytes: 0,
    finishReason: "length",
    stateBytes: 512 * 12 * 128 * 4,
  });
  expect(summary.writtenBytes).toBe(rows * 12 * 128 * 4);
  expect(summary.copyingBytes % summary.stateBytes).toBe(0);
});
