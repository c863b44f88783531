// The engine on the embedded model: every text is the one that the model makes alone, whatever else runs, is cancelled or fails beside it.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LanguageModel } from "../../src/generate/causal-lm.js";
import { CausalLM } from "../../src/index.node.js";
import { rowsOf } from "../../src/cache/block-pool.js";
import type { TokenConstraint } from "../../packages/choice/constraint.js";
import type { PagedDecoder } from "../../src/engine/paged-decoder.js";
import { readSampling } from "../../packages/choice/sampling.js";
import type { Engine } from "../../packages/serve/engine.js";
import { createEngine, type EngineModel, type EngineOptions } from "../../packages/serve/running/create-engine.js";
import { embedded } from "../generate/support.js";
import { type Heard, submit, tokensAlone } from "./engine-support.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? (soak ? Math.floor(Math.random() * 2 ** 31) : 1009877104));

const context = 200;
const blockSize = 8;
let model: LanguageModel;

beforeAll(async () => {
  // Pages of little more than one context: four texts at once do not fit.
  model = await CausalLM.load(embedded, {
    cache: "paged",
    batchInvariant: true,
    threads: 1,
    context,
    blockSize,
    blocks: 26,
    keep: 0,
  });
});
afterAll(() => model.release());

/** Random numbers by a seed. */
function randomBy(start: number): (below: number) => number {
  let state = start >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function expectAllFree(engine: Engine): Promise<void> {
  await engine.close();
  expect(engine.figures()).toMatchObject({ waiting: 0, running: 0, blocksUsed: 0 });
  model.pages!.pool.forgetPrefixes();
}

/** A prompt by its text. */
const tokensOf = (text: string): number[] => model.tokenizer.encode(text);

describe("texts beside each other", () => {
  test("are those that are made alone: greedy and seeded, on pages that do not suffice, with cancellations", async () => {
    console.log(`INSITU_SEED=${seed}`);
    const random = randomBy(seed);
    const beginnings = [
      "Once upon a time there was a king who had three sons, and the eldest of them was very proud",
      "The wolf said to the old woman that he had come a long way, and was tired and hungry",
      "In the forest",
    ].map(tokensOf);
    const count = soak ? 400 : 9;
    const wanted = Array.from({ length: count }, (_, index) => {
      const prompt = [...beginnings[random(3)], ...Array.from({ length: random(30) }, () => 200 + random(3000))];
      const options =
        random(2) === 0
          ? { maxTokens: 20 + random(30) }
          : { maxTokens: 20 + random(30), temperature: 0.9, topK: 40, topP: 0.95, repetitionPenalty: 1.1, seed: index };
      return { prompt, options };
    });
    const alone: number[][] = [];
    for (const { prompt, options } of wanted)
      alone.push(await tokensAlone(model, prompt, { ...options, ignoreEnd: true }));
    model.pages!.pool.forgetPrefixes();
    const options: EngineOptions = { tokenBudget: 48, mostRunning: 8, mostWaiting: count, mostPreemptions: 2 };
    const engine = createEngine(model, options);
    const heard: Heard[] = [];
    const cancelled = new Set<number>();
    for (const [index, { prompt, options: asked }] of wanted.entries()) {
      const { maxTokens, ...sampling } = asked;
      heard.push(
        submit(engine, {
          prompt,
          maxTokens,
          sampling,
          tenant: `tenant ${random(3)}`,
          salt: `salt ${random(2)}`,
          priority: random(5) === 0 ? 1 : 0,
        }),
      );
      if (random(3) === 0) for (let turns = random(12); turns > 0; turns--) await tick();
      if (random(6) === 0) {
        const other = random(index + 1);
        if (heard[other].end === undefined) {
          cancelled.add(other);
          heard[other].text.cancel();
        }
      }
    }
    await Promise.all(heard.flatMap(({ over }, index) => (cancelled.has(index) ? [] : [over])));
    for (const [index, { tokens, end, error }] of heard.entries()) {
      expect(error).toBeUndefined();
      expect(tokens, `text ${index}`).toEqual(alone[index].slice(0, tokens.length));
      if (cancelled.has(index)) expect(end).toBeUndefined();
      else expect([end, tokens.length]).toEqual(["max-tokens", alone[index].length]);
    }
    const { preemptions, reusedTokens, steps } = engine.figures();
    console.log({ preemptions, reusedTokens, steps, cancelled: cancelled.size });
    expect(preemptions).toBeGreaterThan(0);
    await expectAllFree(engine);
  });

  test("a prompt that was read before is taken over, by the same salt only", async () => {
    const engine = createEngine(model);
    const prompt = tokensOf(
      "Once upon a time there was a king who had three sons, and the eldest of them was very proud.",
    );
    const whole = blockSize * Math.floor((prompt.length - 1) / blockSize);
    const cached: (number | undefined)[] = [];
    for (const salt of ["a", "a", "b", "b", undefined]) {
      const heard = submit(engine, { prompt, maxTokens: 2, ...(salt === undefined ? {} : { salt }) });
      await heard.over;
      cached.push(heard.cachedTokens);
    }
    expect(cached).toEqual([0, whole, 0, whole, 0]);
    expect(engine.figures()).toMatchObject({
      promptTokens: 5 * prompt.length,
      reusedTokens: 2 * whole,
      madeTokens: 10,
    });
    await expectAllFree(engine);
  });

  test("texts that begin alike and come together read their beginning once", async () => {
    const engine = createEngine(model, { tokenBudget: 256 });
    const prompt = tokensOf(
      "Once upon a time there was a king who had three sons, and the eldest of them was very proud.",
    );
    const all = Array.from({ length: 4 }, () => submit(engine, { prompt, maxTokens: 3 }));
    await Promise.all(all.map(({ over }) => over));
    expect(new Set(all.map(({ tokens }) => tokens.join())).size).toBe(1);
    expect(engine.figures().steps).toBeLessThan(10);
    await expectAllFree(engine);
  });
});

describe("how a text ends", () => {
  test("at an end token, by its listener, at a full context, before it began", async () => {
    const prompt = tokensOf("Once upon a time");
    const room = 30;
    const alone = await tokensAlone(model, prompt, { maxTokens: room - prompt.length + 1, ignoreEnd: true });
    const { vocabulary, pagedDecoder } = model;
    const engine = createEngine({ contextLength: room, vocabulary, pagedDecoder });
    const end = alone[5];
    const ended = submit(engine, { prompt, endTokens: new Set([end]) });
    const stopped = submit(engine, { prompt, onToken: (count) => (count === 3 ? "stop" : undefined) });
    const full = submit(engine, { prompt, maxTokens: 1000 });
    const nothing = submit(engine, { prompt, maxTokens: 0 });
    await Promise.all([ended, stopped, full, nothing].map(({ over }) => over));
    expect([ended.end, ended.tokens]).toEqual(["end-token", alone.slice(0, alone.indexOf(end))]);
    expect([stopped.end, stopped.tokens]).toEqual(["stopped", alone.slice(0, 3)]);
    expect([full.end, full.tokens]).toEqual(["context-full", alone]);
    expect([nothing.end, nothing.tokens]).toEqual(["max-tokens", []]);
    await expectAllFree(engine);
  });

  test("refusals: a long prompt with both numbers, what is no token, a full line, a closed engine", async () => {
    const engine = createEngine(model, { mostRunning: 1, mostWaiting: 2 });
    expect(() => submit(engine, { prompt: new Array<number>(context + 1).fill(5) })).toThrow(
      expect.objectContaining({
        code: "context-overflow",
        message: expect.stringMatching(/201 tokens.*200/) as string,
      }),
    );
    for (const prompt of [[], [4096], [-1], [1.5]]) expect(() => submit(engine, { prompt })).toThrow(/token/);
    const taken = [submit(engine, { prompt: [5] }), submit(engine, { prompt: [6] })];
    expect(() => submit(engine, { prompt: [7] })).toThrow(
      expect.objectContaining({ code: "queue-full", retryAfterSeconds: expect.any(Number) as number }),
    );
    const drained = engine.drain(60_000);
    expect(() => submit(engine, { prompt: [8] })).toThrow(expect.objectContaining({ code: "closed" }));
    await drained;
    expect(taken.map(({ end }) => end)).toEqual(["max-tokens", "max-tokens"]);
    await expectAllFree(engine);
  });

  test("a full line: the tenant with the most gives way, texts of one request come together or not at all", async () => {
    const engine = createEngine(model, { mostRunning: 1, mostWaiting: 4 });
    const first = Array.from({ length: 4 }, (_, at) => submit(engine, { prompt: [5 + at], maxTokens: 4, tenant: "a" }));
    expect(() => submit(engine, { prompt: [9], tenant: "a" })).toThrow(expect.objectContaining({ code: "queue-full" }));
    expect(() => submit(engine, { prompt: [9], tenant: "b", coming: 2 })).toThrow(/queue is full/);
    const pair = [1, 0].map((coming) => submit(engine, { prompt: [20], maxTokens: 4, tenant: "b", coming }));
    expect(first.map(({ end }) => end)).toEqual([undefined, undefined, "failed", "failed"]);
    expect(first[3].error).toMatchObject({ code: "queue-full", retryAfterSeconds: expect.any(Number) as number });
    await Promise.all([...first, ...pair].map(({ over }) => over));
    expect(first.map(({ end }) => end)).toEqual(["max-tokens", "max-tokens", "failed", "failed"]);
    expect(pair.map(({ end }) => end)).toEqual(["max-tokens", "max-tokens"]);
    await expectAllFree(engine);
  });

  test("a tenant's short text does not wait for another's long ones, which go on where they were", async () => {
    const engine = createEngine(model, { mostRunning: 2, tokenBudget: 48 });
    const prompts = [[5], [6], [7]];
    const alone: number[][] = [];
    for (const prompt of prompts) alone.push(await tokensAlone(model, prompt, { maxTokens: 60, ignoreEnd: true }));
    model.pages!.pool.forgetPrefixes();
    const long = prompts.map((prompt) => submit(engine, { prompt, maxTokens: 60, tenant: "a" }));
    while (long[1].tokens.length < 10) await tick();
    const short = submit(engine, { prompt: [20], maxTokens: 4, tenant: "b" });
    const { steps } = engine.figures();
    await short.over;
    expect(engine.figures().steps - steps).toBeLessThanOrEqual(6);
    await Promise.all(long.map(({ over }) => over));
    expect(long.map(({ tokens }) => tokens)).toEqual(alone);
    expect(engine.figures().preemptions).toBe(0);
    await expectAllFree(engine);
  });

  test("what is left when the time to drain is up fails, and so does everything at a close", async () => {
    for (const end of [(engine: Engine) => engine.drain(0), (engine: Engine) => engine.close()]) {
      const engine = createEngine(model, { mostRunning: 1 });
      const all = [submit(engine, { prompt: [5], maxTokens: 150 }), submit(engine, { prompt: [6], maxTokens: 150 })];
      await tick();
      await tick();
      await end(engine);
      for (const { error } of all) expect(error).toMatchObject({ code: "closed" });
      await expectAllFree(engine);
    }
  });

  test("a cancelled text holds no block after the step that reads it, and is heard of no more", async () => {
    const engine = createEngine(model);
    const heard = submit(engine, { prompt: tokensOf("Once upon a time"), maxTokens: 150 });
    while (heard.tokens.length < 3) await tick();
    const before = heard.tokens.length;
    heard.text.cancel();
    heard.text.cancel();
    const { steps } = engine.figures();
    while (engine.figures().running > 0) await tick();
    expect(engine.figures().steps).toBeLessThanOrEqual(steps + 1);
    expect([heard.tokens.length, heard.end]).toEqual([before, undefined]);
    await expectAllFree(engine);
  });
});

describe("what a text is held to", () => {
  test("a bias, log-probabilities as generate tells them", async () => {
    const prompt = tokensOf("Once upon a time");
    const wanted: unknown[] = [];
    for await (const { token, logprob, top } of model.generate(prompt, { temperature: 0, maxTokens: 4, logprobs: 3 }))
      wanted.push({ token, logprob, top });
    const engine = createEngine(model);
    const plain = submit(engine, { prompt, maxTokens: 4, logprobs: 3 });
    const biased = submit(engine, { prompt, maxTokens: 4, logitBias: new Map([[1234, 100]]) });
    await Promise.all([plain.over, biased.over]);
    expect(plain.made.map(({ token, logprob, top }) => ({ token, logprob, top }))).toEqual(wanted);
    expect(biased.tokens).toEqual([1234, 1234, 1234, 1234]);
    await expectAllFree(engine);
  });

  test("a grammar: only what it allows; where it allows nothing, that text alone fails", async () => {
    const prompt = tokensOf("Once upon a time");
    const alone = await tokensAlone(model, prompt, { maxTokens: 8, ignoreEnd: true });
    /** The tokens 100, 101, … one after another, `count` of them; then nothing, which the text's end may or may not be. */
    const counting = (count: number, ends: boolean): TokenConstraint => {
      let next = 100;
      return {
        fillMask(mask) {
          if (next < 100 + count) mask[next >>> 5] |= 1 << (next & 31);
          return true;
        },
        accept: (token) => token === next++,
        rollback: (back) => void (next -= back),
        get terminated() {
          return ends && next === 100 + count;
        },
      };
    };
    const engine = createEngine(model);
    const sampling = { temperature: 1, topK: 5, topP: 0.5, repetitionPenalty: 1.3, seed: 7 };
    const held = submit(engine, { prompt, maxTokens: 8, sampling, constraint: counting(8, false) });
    const failing = submit(engine, { prompt, maxTokens: 8, constraint: counting(3, false) });
    const whole = submit(engine, { prompt, maxTokens: 8, constraint: counting(3, true) });
    const exact = submit(engine, { prompt, maxTokens: 3, constraint: counting(3, true) });
    const plain = submit(engine, { prompt, maxTokens: 8 });
    await Promise.all([held, failing, whole, exact, plain].map(({ over }) => over));
    expect(held.tokens).toEqual([100, 101, 102, 103, 104, 105, 106, 107]);
    expect([failing.tokens, failing.error?.message]).toEqual([[100, 101, 102], expect.stringContaining("grammar")]);
    for (const { tokens, end } of [whole, exact]) expect([tokens, end]).toEqual([[100, 101, 102], "end-token"]);
    expect([plain.end, plain.tokens]).toEqual(["max-tokens", alone]);
    await expectAllFree(engine);
  });
});

describe("faults", () => {
  type Begin = PagedDecoder["begin"];

  /** The model with runs that are begun otherwise. */
  const begunBy = (begin: Begin): EngineModel => {
    const pagedDecoder = new Proxy(model.pagedDecoder!, {
      get(decoder, name) {
        const value: unknown = name === "begin" ? begin : Reflect.get(decoder, name, decoder);
        return typeof value === "function" ? (value.bind(decoder) as unknown) : value;
      },
    });
    return { contextLength: model.contextLength, vocabulary: model.vocabulary, pagedDecoder };
  };

  /** The model with steps that a test spoils. */
  const spoiled = (spoil: (step: number, rows: Float32Array[]) => void): EngineModel => {
    let steps = 0;
    return begunBy(async (parts, ...others) => {
      const begun = await model.pagedDecoder!.begin(parts, ...others);
      const [{ logitsOf }] = await begun.results;
      spoil(
        steps++,
        parts.map((_, at) => logitsOf(at, 0)),
      );
      return begun;
    });
  };

  test("logits that are no numbers fail their text and no other", async () => {
    const prompts = ["Once upon a time", "The wolf", "In the forest"].map(tokensOf);
    const alone: number[][] = [];
    for (const prompt of prompts) alone.push(await tokensAlone(model, prompt, { maxTokens: 10, ignoreEnd: true }));
    const engine = createEngine(spoiled((step, rows) => void (step === 4 && rows[1].fill(NaN))));
    const heard = prompts.map((prompt) => submit(engine, { prompt, maxTokens: 10 }));
    await Promise.all(heard.map(({ over }) => over));
    expect(heard.map(({ end }) => end)).toEqual(["max-tokens", "failed", "max-tokens"]);
    expect(heard[1].error).toMatchObject({ code: "invalid-model" });
    expect([heard[0].tokens, heard[2].tokens]).toEqual([alone[0], alone[2]]);
    const next = submit(engine, { prompt: prompts[1], maxTokens: 10 });
    await next.over;
    expect(next.tokens).toEqual(alone[1]);
    await expectAllFree(engine);
  });

  test("a run that fails for one text goes on for the others", async () => {
    const prompts = ["Once upon a time", "The wolf", "In the forest"].map(tokensOf);
    const alone: number[][] = [];
    for (const prompt of prompts) alone.push(await tokensAlone(model, prompt, { maxTokens: 10, ignoreEnd: true }));
    let bad: unknown;
    const isBad = ({ sequence, tokens }: Parameters<Begin>[0][number]): boolean =>
      sequence === bad && rowsOf(tokens) === 1;
    const broken = begunBy(async (parts, ...others) => {
      bad ??= parts[1].sequence;
      if (parts.some(isBad)) throw new Error("broken");
      return model.pagedDecoder!.begin(parts, ...others);
    });
    const engine = createEngine(broken);
    const heard = prompts.map((prompt) => submit(engine, { prompt, maxTokens: 10 }));
    await Promise.all(heard.map(({ over }) => over));
    expect(heard.map(({ end }) => end)).toEqual(["max-tokens", "failed", "max-tokens"]);
    expect([heard[0].tokens, heard[2].tokens]).toEqual([alone[0], alone[2]]);
    await expectAllFree(engine);
  });

  test("listeners that throw or cancel at once harm nobody else", async () => {
    const engine = createEngine(model);
    const prompt = tokensOf("Once upon a time");
    const alone = await tokensAlone(model, prompt, { maxTokens: 6, ignoreEnd: true });
    const throwing = submit(engine, {
      prompt,
      onToken: () => {
        throw new Error("a listener's own");
      },
    });
    const plain = submit(engine, { prompt, maxTokens: 6 });
    await Promise.all([throwing.over, plain.over]);
    expect([throwing.end, plain.tokens]).toEqual(["failed", alone]);
    await expectAllFree(engine);
  });

  test("a listener that throws when its text begins harms nobody else", async () => {
    const engine = createEngine(model);
    const prompt = tokensOf("Once upon a time");
    const alone = await tokensAlone(model, prompt, { maxTokens: 6, ignoreEnd: true });
    let failed: Error | undefined;
    engine.submit(
      {
        id: "throws",
        tenant: "",
        prompt,
        maxTokens: 6,
        endTokens: new Set(),
        sampling: readSampling({ temperature: 0 }),
      },
      {
        started() {
          throw new Error("a listener's own");
        },
        token: () => undefined,
        ended() {},
        failed: (error) => void (failed = error),
      },
    );
    const plain = submit(engine, { prompt, maxTokens: 6 });
    await plain.over;
    expect([failed?.message, plain.tokens]).toEqual(["a listener's own", alone]);
    await expectAllFree(engine);
  });

  test("an engine needs pages", () => {
    expect(() => createEngine({ contextLength: 8, vocabulary: 8, pagedDecoder: undefined })).toThrow(/cache: "paged"/);
  });
});
