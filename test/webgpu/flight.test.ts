// The decode loop that does not wait: texts drawn on a device with several tokens under way are those that are chosen on the host, however
// they end, and what is left behind is right for the next text.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { CausalLM } from "../../src/entry/node.js";
import type { Generation, GenerationSummary } from "../../src/generate/generation.js";
import type { GenerateOptions } from "../../src/generate/options.js";
import { writeModel } from "../../src/onnx/write.js";
import { hubFolder, tokensOf } from "../generate/support.js";
import { noWebgpu } from "../support/backends.js";
import { soak } from "../support/soak.js";

const prompt = [11, 7, 200, 31, 5];
const capacity = 40;

const idsOf = async (generation: Generation): Promise<number[]> =>
  (await tokensOf(generation)).map(({ token }) => token);

/** Ways to draw that a device knows. */
const ways: readonly (readonly [name: string, options: GenerateOptions])[] = [
  ["greedily", {}],
  ["by temperature", { temperature: 1.5, seed: 3 }],
  ["by temperature, another seed", { temperature: 1.5, seed: -12_345_678_901 }],
  ["of the likeliest", { temperature: 2, topK: 7, seed: 4 }],
  ["of the likeliest alone", { temperature: 2, topK: 1, seed: 4 }],
  ["of a least share", { temperature: 3, minP: 0.3, seed: 5 }],
  ["of both", { temperature: 3, topK: 9, minP: 0.05, seed: 6 }],
  ["of a nucleus of the likeliest", { temperature: 2, topK: 9, topP: 0.6, seed: 7 }],
  ["with a penalty on what was there", { repetitionPenalty: 1.3 }],
  ["as published models ask for it", { temperature: 2, topK: 20, topP: 0.9, repetitionPenalty: 1.2, seed: 8 }],
];

/** Where texts lie, and how many of their tokens are begun at once. Blocks of few rows: texts end anywhere in them. */
const caches = [
  ["linear caches", {}, 1],
  ["linear caches, four tokens at once", {}, 4],
  ["pages", { cache: "paged", blockSize: 4 }, 1],
] as const;

describe.skipIf(noWebgpu !== undefined).each(caches)("on a GPU, on %s", (place, cache, tokensAtOnce) => {
  let folder: ReturnType<typeof hubFolder>;
  let device: CausalLM;
  let host: CausalLM;
  beforeAll(async () => {
    folder = hubFolder("llama", {
      "onnx/model.onnx": writeModel(generatedDecoder({ ...smallSizes, vocabulary: 256 })),
      "generation_config.json": { eos_token_id: 256 },
    });
    const shape = { context: capacity, chunk: 4 };
    device = await CausalLM.load(folder.path, { backend: "webgpu", inPlace: "require", ...shape, ...cache });
    host = await CausalLM.load(folder.path, { backend: "wasm", threads: 1, ...shape });
  });
  afterAll(async () => {
    await device?.release();
    await host?.release();
    folder?.remove();
  });

  /** The most that are under way. A tripwire: the depth and the length of series are the engine's own (`engine/tuning.ts`). */
  const tokensInFlight = tokensAtOnce === 1 ? 3 : 2 * tokensAtOnce;

  /** How many came after a text's end. */
  const expectDiscarded = (summary: GenerationSummary): void => {
    if (tokensAtOnce === 1) expect(summary.discardedTokens).toBe(tokensInFlight - 1);
    else expect(summary.discardedTokens).toBeLessThan(tokensInFlight);
  };

  const tried = soak ? ways : ways.filter(([name]) => name === "as published models ask for it");
  test.each(tried)("tokens drawn %s are those of the host", async (name, options) => {
    const count = soak ? 30 : 20;
    const wanted = { maxTokens: count, tokensAtOnce, ...options };
    const generation = device.generate(prompt, wanted);
    const ids = await idsOf(generation);
    expect(ids).toEqual(await idsOf(host.generate(prompt, wanted)));
    expect(generation.summary).toMatchObject({ tokensInFlight, discardedTokens: 0, newTokens: count });
    if (name === "greedily" || name === "of the likeliest alone")
      expect(ids).toEqual(await idsOf(host.generate(prompt, { maxTokens: count })));
    // Chosen on the host, from the device's logits.
    const plain = device.generate(prompt, { ...wanted, logprobs: true });
    expect(await idsOf(plain)).toEqual(ids);
    expect(plain.summary).toMatchObject({ tokensInFlight: 0, discardedTokens: 0 });
  });

  test("a token that may not come yet is chosen again, and the text flies on", async () => {
    for (const options of [{}, { temperature: 1.5, seed: 3, repetitionPenalty: 1.2 }] satisfies GenerateOptions[]) {
      const all = { maxTokens: 12, tokensAtOnce, ...options };
      const free = await idsOf(host.generate(prompt, all));
      // What would come first, and what would come fourth, end the text: the first three tokens may not.
      for (const stopTokens of [[free[0]], [free[3]], [free[0], free[1], free[3]]]) {
        const wanted = { ...all, stopTokens, minTokens: 3 };
        const generation = device.generate(prompt, wanted);
        const ids = await idsOf(generation);
        expect(ids).toEqual(await idsOf(host.generate(prompt, wanted)));
        expect(ids.length).toBeGreaterThanOrEqual(3);
        expect(generation.summary.tokensInFlight).toBeGreaterThan(0);
      }
      // The context is right for the next text.
      expect(await idsOf(device.generate(prompt, all))).toEqual(free);
    }
    const batches: number[][] = [];
    for (const lm of [device, host]) {
      const made: number[] = [];
      for await (const { token } of lm.generateBatch([prompt], { maxTokens: 6, minTokens: 4 })) made.push(token);
      batches.push(made);
    }
    expect(batches[0]).toEqual(batches[1]);
  });

  // Parts of few lengths, the last of which reads tokens once more: on the device, and where logits come to the host.
  test.skipIf(!soak)("prompts of many lengths, and what follows them", async () => {
    const context = 200;
    const other = await CausalLM.load(folder.path, { backend: "webgpu", inPlace: "require", context, ...cache });
    const plain = await CausalLM.load(folder.path, { backend: "wasm", threads: 1, context });
    for (const length of [3, 17, 65, 70, 129]) {
      const text = Array.from({ length }, (_, at) => (37 * at + length) % 250);
      const longer = [...text, 9, 8, 7, 6, 5];
      for (const [given, options] of [
        [text, {}],
        [longer, {}],
        [longer, { logprobs: true }],
      ] as const) {
        const wanted = { maxTokens: 6, ...options };
        expect(await idsOf(other.generate(given, wanted)), `${given.length} tokens`).toEqual(
          await idsOf(plain.generate(given, wanted)),
        );
      }
    }
    const texts = [3, 20, 70].map((length) => Array.from({ length }, (_, at) => (41 * at + length) % 250));
    const made: number[][] = texts.map(() => []);
    for await (const { sample, token } of other.generateBatch(texts, { maxTokens: 6 })) made[sample].push(token);
    for (const [sample, text] of texts.entries())
      expect(made[sample], `text ${sample} of a batch`).toEqual(await idsOf(plain.generate(text, { maxTokens: 6 })));
    await Promise.all([other.release(), plain.release()]);
  });

  test.skipIf(!soak)("options that need logits on the host are obeyed there", async () => {
    const others: readonly GenerateOptions[] = [
      { temperature: 1, topP: 0.9, seed: 1 },
      { presencePenalty: 0.5 },
      { frequencyPenalty: 0.5 },
      { whenFull: "slide", maxTokens: capacity },
    ];
    for (const options of others) {
      const wanted = { maxTokens: 5, ...options };
      const generation = device.generate(prompt, wanted);
      expect(await idsOf(generation)).toEqual(await idsOf(host.generate(prompt, wanted)));
      expect(generation.summary.tokensInFlight, JSON.stringify(options)).toBe(0);
    }
    // Guesses are checked on the device: the token behind them is drawn there, and the next one waits for it.
    const guessed = device.generate(prompt, { maxTokens: 5, speculate: true });
    expect(await idsOf(guessed)).toEqual(await idsOf(host.generate(prompt, { maxTokens: 5 })));
    expect(guessed.summary.tokensInFlight).toBe(1);
    // Where it cannot come to sliding, or nothing is drawn, there is nothing to obey.
    for (const options of [{ whenFull: "slide" }, { temperature: 0, topP: 0.5 }] as const) {
      const generation = device.generate(prompt, { maxTokens: 5, tokensAtOnce: 1, ...options });
      expect(await idsOf(generation)).toEqual(await idsOf(host.generate(prompt, { maxTokens: 5 })));
      expect(generation.summary.tokensInFlight).toBe(3);
    }
  });

  /** Endings are tried on linear caches in the tests, and everywhere in the soak. */
  const isSampled = soak || place === "linear caches";
  const way = { temperature: 2, topK: 40, seed: 8, tokensAtOnce };
  const lengths = soak ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : [2];

  /** Goes on from what a text left behind: reads what is new, and draws what the host draws. */
  const goOn = async (before: readonly number[]): Promise<void> => {
    const next = [...before, 9, 1];
    const generation = device.generate(next, { maxTokens: 4, ...way });
    expect(await idsOf(generation)).toEqual(await idsOf(host.generate(next, { maxTokens: 4, ...way })));
    expect(generation.summary.reusedTokens).toBeGreaterThanOrEqual(before.length - 1);
  };

  test.skipIf(!soak && place === "pages").each(lengths)(
    "a text of %d tokens, by number and by its last token",
    async (length) => {
      const all = await idsOf(host.generate(prompt, { maxTokens: 12, ...way }));
      const exact = device.generate(prompt, { maxTokens: length, ...way });
      expect(await idsOf(exact)).toEqual(all.slice(0, length));
      expect(exact.summary).toMatchObject({ finishReason: "length", discardedTokens: 0 });
      await goOn([...prompt, ...all.slice(0, length)]);
      const stop = all.indexOf(all[length]);
      const wanted = { maxTokens: 12, stopTokens: [all[length]], ...way };
      const ended = device.generate(prompt, wanted);
      // A token that ends a text is told where it lets go of what was held back.
      expect(await tokensOf(ended)).toEqual(await tokensOf(host.generate(prompt, wanted)));
      expect(ended.summary).toMatchObject({ finishReason: "end", newTokens: stop });
      expectDiscarded(ended.summary);
      await goOn([...prompt, ...all.slice(0, stop)]);
    },
  );

  test.skipIf(!soak && tokensAtOnce > 1).each(lengths)(
    "a text that a stop string ends after %d tokens",
    async (length) => {
      const tokens = await tokensOf(host.generate(prompt, { maxTokens: 12, ...way }));
      const stop = host.tokenizer.decode(tokens.slice(length - 1, length + 1).map(({ token }) => token));
      const wanted = { maxTokens: 12, stop, ...way };
      const [ours, theirs] = [device.generate(prompt, wanted), host.generate(prompt, wanted)];
      expect(await tokensOf(ours)).toEqual(await tokensOf(theirs));
      expect(ours.textSoFar).toBe(theirs.textSoFar);
      expect(ours.summary.finishReason).toBe(theirs.summary.finishReason);
      await goOn(prompt);
    },
  );

  test.skipIf(!isSampled).each(lengths)(
    "a text that is left, and one that is aborted, after %d tokens",
    async (length) => {
      const all = await idsOf(host.generate(prompt, { maxTokens: 12, ...way }));
      const left: number[] = [];
      const leaving = device.generate(prompt, { maxTokens: 12, ...way });
      for await (const { token } of leaving) if (left.push(token) === length) break;
      expect(left).toEqual(all.slice(0, length));
      expect(leaving.summary).toMatchObject({ finishReason: "unfinished", newTokens: length });
      expectDiscarded(leaving.summary);
      await goOn([...prompt, ...left]);
      const abort = new AbortController();
      const aborted = device.generate(prompt, { maxTokens: 12, signal: abort.signal, ...way });
      const seen: number[] = [];
      const run = async (): Promise<void> => {
        for await (const { token } of aborted) if (seen.push(token) === length) abort.abort(new Error("enough"));
      };
      await expect(run()).rejects.toThrow("enough");
      expect(seen).toEqual(all.slice(0, length));
      await goOn([...prompt, ...seen]);
    },
  );

  test.skipIf(!soak)("a text that is aborted while its prompt is read", async () => {
    const abort = new AbortController();
    const long = Array.from({ length: 30 }, (_, at) => (at * 37) % 256);
    const generation = device.generate(long, { maxTokens: 4, signal: abort.signal });
    setImmediate(() => abort.abort(new Error("enough")));
    await expect(idsOf(generation)).rejects.toThrow("enough");
    expect(await idsOf(device.generate(long, { maxTokens: 4 }))).toEqual(
      await idsOf(host.generate(long, { maxTokens: 4 })),
    );
  });

  test.skipIf(!isSampled).each(soak ? [capacity - 1, capacity, 3] : [capacity - 2])(
    "a context that is full after a prompt of %d tokens",
    async (length) => {
      const long = Array.from({ length }, (_, at) => (at * 29 + 3) % 256);
      const [ours, theirs] = [device.generate(long, way), host.generate(long, way)];
      expect(await idsOf(ours)).toEqual(await idsOf(theirs));
      expect(ours.summary).toMatchObject({
        finishReason: "context",
        newTokens: capacity - length + 1,
        discardedTokens: 0,
      });
      await expect(idsOf(device.generate(long, { ...way, whenFull: "error" }))).rejects.toMatchObject({
        code: "context-full",
      });
      expect(await idsOf(device.generate(long.slice(0, 2), { maxTokens: 3 }))).toEqual(
        await idsOf(host.generate(long.slice(0, 2), { maxTokens: 3 })),
      );
    },
  );

  test.skipIf(!soak)("texts of one prompt, made at the same time on forks", async () => {
    const [ours, theirs] = await Promise.all(
      [device, host].map(async (lm) => {
        const texts = await lm.samples(prompt, 3, { maxTokens: 9, ...way });
        return Promise.all(texts.map(idsOf));
      }),
    );
    expect(ours).toEqual(theirs);
    expect(new Set(ours.map(String)).size).toBe(3);
  });

  test.skipIf(!soak)("what a text left is saved and restored, and a conversation goes on", async () => {
    const ids = await idsOf(device.generate(prompt, { maxTokens: 6, ...way }));
    const saved = await device.saveContext();
    await idsOf(device.generate([1, 2, 3], { maxTokens: 6, ...way }));
    await device.restoreContext(saved);
    await goOn([...prompt, ...ids]);
  });

  // Batches begin their runs one by one.
  test
    .skipIf(tokensAtOnce > 1)
    .each(
      soak ? [...ways, ["until one is full", { temperature: 2, seed: 1, maxTokens: capacity }] as const] : [ways[6]],
    )("texts of a batch, drawn %s, are those of the host", async (_, options) => {
    const prompts = [prompt, [9], [4, 4, 4, 4, 4, 4, 4, 200, 3, 7, 1]];
    const [ours, theirs] = await Promise.all(
      [device, host].map(async (lm) => {
        const texts = [];
        const stopTokens = [65];
        for await (const token of lm.generateBatch(prompts, { maxTokens: 7, stopTokens, ...options }))
          texts.push(token);
        return texts;
      }),
    );
    expect(ours).toEqual(theirs);
    expect(ours.length).toBeGreaterThan(9);
    // Some are left, in the middle of a run's tokens.
    let count = 0;
    for await (const { sample, token } of device.generateBatch(prompts, { maxTokens: 7, ...options })) {
      if (count === 0) expect([sample, token]).toEqual([theirs[0].sample, theirs[0].token]);
      if (++count === 5) break;
    }
  });

  test.skipIf(!soak || place !== "pages")("a pool that is full to the last row, and one row short of it", async () => {
    // A prompt of 5 and 8 tokens behind it, the last one unread: 12 rows.
    const wanted = { maxTokens: 8, ...way };
    const theirs = await idsOf(host.generate(prompt, wanted));
    for (const blocks of [3, 2]) {
      const lm = await CausalLM.load(folder.path, {
        backend: "webgpu",
        context: capacity,
        keep: 0,
        ...cache,
        blocks,
      });
      const ids: number[] = [];
      const run = async (): Promise<void> => {
        for await (const { token } of lm.generate(prompt, wanted)) ids.push(token);
      };
      if (blocks === 3) await run();
      else await expect(run()).rejects.toMatchObject({ code: "out-of-memory" });
      // With 8 rows, the fourth token is the last that the device draws.
      expect(ids).toEqual(theirs.slice(0, blocks === 3 ? 8 : 4));
      await lm.release();
    }
  });

  test.skipIf(!soak)("a model that is released while tokens are under way", async () => {
    const lm = await CausalLM.load(folder.path, { backend: "webgpu", context: capacity, ...cache });
    let count = 0;
    const run = async (): Promise<void> => {
      for await (const _ of lm.generate(prompt, { maxTokens: 24, tokensAtOnce })) if (++count === 3) await lm.release();
    };
    await expect(run()).rejects.toMatchObject({ code: "released" });
    expect(count).toBeGreaterThanOrEqual(3);
  });

  // Greedily: text.test.ts.
  const embeddedWays = [
    ["by temperature", { temperature: 0.8, topK: 0, seed: 21 }],
    ["of the likeliest", { temperature: 1, topK: 40, seed: 22 }],
    ["of a least share", { temperature: 1, topK: 0, minP: 0.05, seed: 23 }],
    ["as it asks for it itself", { temperature: 0.8, topK: 40, topP: 0.95, repetitionPenalty: 1.1, seed: 24 }],
  ] as const;
  test.skipIf(!soak).each(embeddedWays)("the embedded model's text over 64 tokens, drawn %s", async (_, options) => {
    const wanted = { maxTokens: 64, topP: 1, repetitionPenalty: 1, tokensAtOnce, ...options };
    const texts = [];
    for (const backend of ["wasm", "webgpu"] as const) {
      const lm = await CausalLM.load(undefined, { backend, ...(backend === "webgpu" ? cache : {}) });
      const generation = lm.generate("Once upon a time", wanted);
      texts.push(await generation.text());
      expect(generation.summary.tokensInFlight).toBe(backend === "webgpu" ? tokensInFlight : 0);
      await lm.release();
    }
    expect(texts[1]).toBe(texts[0]);
  });
});
