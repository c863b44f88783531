// Guesses of draft models: whoever guesses, the text is what it is without. Sums taken in another order may change it at a tie, which is listed.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import type { GeneratedToken } from "../../src/generate/generation.js";
import type { GenerateOptions } from "../../src/generate/options.js";
import { type Counts, countTokens, expectSameDistribution } from "../support/chi-square.js";
import { draftFolder } from "../support/embedded-drafts.js";
import { soak } from "../support/soak.js";
import { expectSameTokens, tokensOf } from "./support.js";

const subjects = [
  "The king",
  "An old woman",
  "The wolf",
  "A poor miller",
  "The youngest son",
  "The princess",
  "The fox",
];
const deeds = ["went into the forest", "said to the", "had three", "came to a castle and", "saw a bird that", "was so"];
const times = ["", "Once upon a time ", "One day ", "In the evening, ", "Long ago "];
/** Prompts that differ. */
const prompts = times
  .flatMap((time) => subjects.flatMap((subject) => deeds.map((deed) => `${time}${subject} ${deed}`)))
  .filter((_, at) => (soak ? at < 200 : at % 30 === 0));

/** Tokens of each text. */
const length = soak ? 40 : 16;

const folders = [draftFolder(5), draftFolder(1, true)];
const names = ["of fewer layers", "of chance", "that is the model once more"] as const;
let drafts: CausalLM[];
let [lm, onPages]: CausalLM[] = [];

beforeAll(async () => {
  drafts = [];
  for (const source of [folders[0].path, folders[1].path, undefined])
    drafts.push(await CausalLM.load(source, source === undefined ? { cache: "paged" } : {}));
  lm = await CausalLM.load();
  onPages = await CausalLM.load(undefined, { cache: "paged", blockSize: 4, blocks: 160, batchInvariant: true });
});
afterAll(async () => {
  for (const model of [...drafts, lm, onPages]) await model.release();
  for (const folder of folders) folder.remove();
});

/** What models say without guesses. */
const known = new Map<string, GeneratedToken[]>();

/** What a model says with a draft's guesses, beside what it says without. */
async function expectSame(model: CausalLM, prompt: string, options: GenerateOptions, draft: CausalLM, what: string) {
  const key = JSON.stringify([model === lm, prompt, options]);
  const plain = known.get(key) ?? (await tokensOf(model.generate(prompt, { ...options, logprobs: 2 })));
  known.set(key, plain);
  const guessed = model.generate(prompt, { ...options, speculate: { draft, adaptive: false, tokens: 3 } });
  expectSameTokens(await tokensOf(guessed), plain, what);
  return guessed.summary;
}

describe.each(names)("a draft %s", (name) => {
  const draftOf = () => drafts[names.indexOf(name)];

  test("makes greedy texts no other", async () => {
    let [guessed, right] = [0, 0];
    for (const [at, prompt] of prompts.entries()) {
      const model = at % 2 === 0 ? lm : onPages;
      const summary = await expectSame(model, prompt, { temperature: 0, maxTokens: length }, draftOf(), prompt);
      guessed += summary.guessedTokens;
      right += summary.rightGuesses;
    }
    console.log(`a draft ${name}: ${right} of ${guessed} greedy guesses were right`);
    expect(guessed).toBeGreaterThan(prompts.length);
    if (name === names[2]) expect(right / guessed).toBeGreaterThan(0.95);
    if (name === names[1]) expect(right / guessed).toBeLessThan(0.2);
  });

  // A draw may be a tie of which logits tell nothing: the model reads every token as if it were alone.
  test("makes sampled texts no other", async () => {
    let [guessed, right] = [0, 0];
    for (const [at, prompt] of prompts.entries()) {
      const options = { temperature: [0.7, 1, 1.3][at % 3], topP: at % 2 === 0 ? 1 : 0.9, topK: [0, 40][at % 2] };
      const penalties = { repetitionPenalty: [1, 1.1][at % 2], presencePenalty: [0, 0.5][at % 2] };
      const all = { ...options, ...penalties, seed: at, maxTokens: length };
      const summary = await expectSame(onPages, prompt, all, draftOf(), prompt);
      guessed += summary.guessedTokens;
      right += summary.rightGuesses;
    }
    console.log(`a draft ${name}: ${right} of ${guessed} sampled guesses were right`);
    if (name === names[2]) expect(right / guessed).toBeGreaterThan(0.95);
  });

  test("leaves ends, stops, rules and bias what they are", async () => {
    const draft = draftOf();
    const ways: readonly GenerateOptions[] = [
      { stop: ["the", "king"], maxTokens: 60 },
      { stop: " and", minTokens: 9, maxTokens: 60 },
      { stopTokens: lm.tokenizer.encode(" was a of to"), maxTokens: 60 },
      { endAtSentence: true, maxTokens: 50 },
      { maxTokens: 1 },
      { maxTokens: 2 },
      { regex: "[a-z ]{20,60}\\.", maxTokens: 60 },
      { jsonSchema: { type: "array", items: { enum: ["king", "wolf", "fox"] }, minItems: 3, maxItems: 5 } },
      { logitBias: new Map(lm.tokenizer.encode(" the").map((token) => [token, -20])), maxTokens: 30 },
      { temperature: 0.9, seed: 4, logprobs: 2, maxTokens: 30 },
    ];
    for (const [at, way] of ways.entries())
      for (const model of soak ? [lm, onPages] : [[lm, onPages][at % 2]]) {
        const options = { temperature: at % 2 === 0 ? 0 : 0.8, seed: at, maxTokens: 80, ...way };
        const plain = model.generate(prompts[at % prompts.length], options);
        const guessed = model.generate(prompts[at % prompts.length], {
          ...options,
          speculate: { draft, adaptive: false },
        });
        expect([await guessed.text(), guessed.summary.finishReason], JSON.stringify(way)).toEqual([
          await plain.text(),
          plain.summary.finishReason,
        ]);
      }
  });

  test("guesses for batches and samples", async () => {
    const some = prompts.slice(0, 4);
    const options = { temperature: 0.8, seed: 7, maxTokens: 24 };
    const speculate = { draft: draftOf(), adaptive: false, tokens: 3 };
    for (const model of [lm, onPages]) {
      const made = async (given: GenerateOptions) => {
        const texts = some.map((): number[] => []);
        for await (const { sample, token } of model.generateBatch(some, given)) texts[sample].push(token);
        return texts;
      };
      expect(await made({ ...options, speculate })).toEqual(await made(options));
      const samples = async (given: GenerateOptions) =>
        Promise.all((await model.samples(some[0], 3, given)).map((sample) => sample.text()));
      expect(await samples({ ...options, speculate })).toEqual(await samples(options));
    }
  });
});

test("the context's end is where it was", async () => {
  const short = await CausalLM.load(undefined, { context: 24 });
  const prompt = short.tokenizer.encode(prompts[1]);
  const texts = async (speculate: GenerateOptions["speculate"]) => {
    const generation = short.generate(prompt, { temperature: 0, ...(speculate && { speculate }) });
    return [await generation.text(), generation.summary.finishReason];
  };
  const plain = await texts(undefined);
  for (const draft of drafts) expect(await texts({ draft, adaptive: false, tokens: 8 })).toEqual(plain);
  const slid = { temperature: 0, whenFull: "slide" as const, maxTokens: 40 };
  expect(await short.generate(prompt, { ...slid, speculate: { draft: drafts[0], adaptive: false } }).text()).toBe(
    await short.generate(prompt, slid).text(),
  );
  // A draft with less room guesses as far as that goes.
  const plainLong = await lm.generate(prompt, { temperature: 0, maxTokens: 40 }).text();
  expect(
    await lm.generate(prompt, { temperature: 0, maxTokens: 40, speculate: { draft: short, adaptive: false } }).text(),
  ).toBe(plainLong);
  await short.release();
});

test("what is looked up goes before what a draft guesses", async () => {
  const prompt = "The king said: I am the king. The king said: I am the";
  const options = { temperature: 0, maxTokens: 40, logprobs: 2 };
  const plain = await tokensOf(lm.generate(prompt, options));
  const both = lm.generate(prompt, { ...options, speculate: { draft: drafts[0], ngram: 2, adaptive: false } });
  expectSameTokens(await tokensOf(both), plain, "both");
  expect(both.summary.guessedTokens).toBeGreaterThanOrEqual(both.summary.rightGuesses);
  expect(both.summary.rightGuesses).toBeGreaterThan(0);
});

test("a text that is left in the middle leaves nothing behind", async () => {
  const [, , draft] = drafts;
  const before = draft.pages!.pool.sequences.length;
  for (let at = 0; at < 6; at++) {
    const stop = new AbortController();
    const options = { temperature: 1, seed: at, signal: stop.signal };
    const generation = onPages.generate(prompts[at % prompts.length], {
      ...options,
      speculate: { draft, adaptive: false },
    });
    let count = 0;
    const read = (async () => {
      for await (const _ of generation)
        if (++count > at * 3) {
          if (at % 2 === 0) break;
          stop.abort(new Error("enough"));
        }
    })();
    if (at % 2 === 0) await read;
    else await expect(read).rejects.toThrow("enough");
  }
  // The context that was used last waits for prompts that begin alike.
  expect(draft.pages!.pool.sequences.length).toBeLessThanOrEqual(Math.max(before, 1));
  expect(draft.forServers.engine.texts.size).toBe(0);
});

test("a draft that fails, or is gone, leaves the text without guesses", async () => {
  const tiny = await CausalLM.load(undefined, { cache: "paged", blockSize: 4, blocks: 8 });
  const options = { temperature: 0, maxTokens: 60 };
  const plain = await lm.generate(prompts[2], options).text();
  expect(await lm.generate(prompts[2], { ...options, speculate: { draft: tiny, adaptive: false } }).text()).toBe(plain);
  await tiny.release();
  const gone = lm.generate(prompts[2], { ...options, speculate: { draft: tiny, adaptive: false } });
  expect(await gone.text()).toBe(plain);
  expect(gone.summary.guessedTokens).toBe(0);
});

test("two models are each other's drafts at a time", async () => {
  const [, , other] = drafts;
  const options = { temperature: 0, maxTokens: 40 };
  const [one, two] = await Promise.all([
    lm.generate(prompts[0], { ...options, speculate: { draft: other, adaptive: false } }).text(),
    other.generate(prompts[1], { ...options, speculate: { draft: lm, adaptive: false } }).text(),
  ]);
  expect(one).toBe(await lm.generate(prompts[0], options).text());
  expect(two).toBe(await other.generate(prompts[1], options).text());
});

test("adaptive lengths leave the text the same", async () => {
  for (const draft of drafts)
    for (const model of [lm, onPages]) {
      const options = { temperature: 0.8, seed: 3, maxTokens: 120 };
      expect(await model.generate(prompts[3], { ...options, speculate: { draft } }).text()).toBe(
        await model.generate(prompts[3], options).text(),
      );
    }
});

test("a draft that is never right is asked now and then, where tokens come one by one too", async () => {
  const [, chance] = drafts;
  const options = { temperature: 0, maxTokens: 200, ignoreEnd: true, speculate: { draft: chance } };
  for (const model of [lm, onPages]) {
    const generation = model.generate(prompts[0], options);
    await generation.text();
    expect(generation.summary.guessedTokens).toBeLessThan(100);
  }
});

test("refuses what cannot guess", () => {
  const refuse = (speculate: object, why: RegExp) =>
    expect(() => lm.generate("x", { speculate: speculate as GenerateOptions["speculate"] & object })).toThrow(why);
  refuse({ draft: lm }, /is the model itself/);
  refuse(
    { draft: { vocabulary: 256, forServers: drafts[0].forServers } },
    /has 256 tokens in its vocabulary, the model has 4096/,
  );
  refuse({ draft: {} }, /option speculate.draft must be a language model, got/);
  refuse({ draft: drafts[0], tokens: 0 }, /option speculate.tokens must be/);
  refuse({ draft: drafts[0], adaptive: 1 }, /option speculate.adaptive must be/);
  refuse({ drafts: 1 }, /draft/);
});

// By counts: 50,000 tokens drawn with guesses beside as many drawn without, by other seeds.
describe.runIf(soak)("sampled tokens are distributed as without guesses", () => {
  const repeats = "The king said to the queen: the king said to the queen, and the king said to the";
  test.each([
    ["a draft", "The king said to the", () => ({ draft: drafts[0], adaptive: false, tokens: 3 })],
    ["lookup", repeats, () => ({ ngram: 2, tokens: 4, adaptive: false })],
  ] as const)(
    "%s",
    async (_name, prompt, speculate) => {
      const [counts, wanted]: [Counts, Counts] = [new Map(), new Map()];
      let right = 0;
      for (let seed = 0; seed < 5000; seed++) {
        const options = { temperature: 0.9, topK: 0, topP: 1, repetitionPenalty: 1, maxTokens: 10, ignoreEnd: true };
        const guessed = lm.generate(prompt, { ...options, seed, speculate: speculate() });
        await countTokens(counts, guessed);
        right += guessed.summary.rightGuesses;
        await countTokens(wanted, lm.generate(prompt, { ...options, seed: seed + 1_000_000 }));
      }
      console.log(`${right} guesses were right`);
      expect(right).toBeGreaterThan(100);
      expectSameDistribution(counts, wanted);
    },
    1_800_000,
  );
});
