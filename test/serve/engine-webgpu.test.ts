// The engine on a device: tokens are drawn there where a text's options allow it, each by options of its own, and come to the host without
// their logits. The texts are those that the host makes alone.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { CausalLM } from "../../src/entry/node.js";
import type { GenerateOptions } from "../../src/generate/options.js";
import { writeModel } from "../../src/onnx/write.js";
import { createEngine } from "../../packages/serve/running/create-engine.js";
import { hubFolder } from "../generate/support.js";
import { noWebgpu } from "../support/backends.js";
import { submit, tokensAlone } from "./engine-support.js";
import { soak } from "../support/soak.js";

const drawn: readonly GenerateOptions[] = [
  {},
  { temperature: 1.5, seed: 3 },
  { temperature: 2, topK: 7, seed: -4 },
  { temperature: 3, minP: 0.3, seed: 5 },
  { temperature: 2, topK: 20, topP: 0.9, repetitionPenalty: 1.3, seed: 6 },
];

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  let folder: ReturnType<typeof hubFolder>;
  let device: CausalLM;
  let host: CausalLM;
  beforeAll(async () => {
    folder = hubFolder("llama", {
      "onnx/model.onnx": writeModel(generatedDecoder({ ...smallSizes, vocabulary: 256 })),
      "generation_config.json": { eos_token_id: 256 },
    });
    const cache = { cache: "paged", blockSize: 4, keep: 0 } as const;
    device = await CausalLM.load(folder.path, { backend: "webgpu", context: 40, ...cache });
    host = await CausalLM.load(folder.path, { backend: "wasm", threads: 1, context: 40 });
  });
  afterAll(async () => {
    await device?.release();
    await host?.release();
    folder?.remove();
  });

  const prompts = drawn.map((_, at) => [11 + at, 7, 200, 31, 5].slice(0, 2 + (at % 4)));
  const alone = (): Promise<number[][]> =>
    Promise.all(drawn.map((options, at) => tokensAlone(host, prompts[at], { maxTokens: 8, ...options })));

  test("texts of several ways beside each other, and no logits on the host", async () => {
    const decoder = device.pagedDecoder!;
    const begin = vi.spyOn(decoder, "begin");
    const engine = createEngine(device);
    const heard = drawn.map((sampling, at) => submit(engine, { prompt: prompts[at], maxTokens: 8, sampling }));
    await Promise.all(heard.map(({ over }) => over));
    expect(heard.map(({ tokens }) => tokens)).toEqual(await alone());
    expect(begin.mock.calls.some(([parts]) => parts.length === drawn.length)).toBe(true);
    expect(begin.mock.calls.every(([parts]) => parts.every(({ wantsLogits }) => !wantsLogits))).toBe(true);
    expect(engine.figures()).toMatchObject({ blocksUsed: 0 });
    await engine.close();
    vi.restoreAllMocks();
  });

  test("a text that needs its logits has them beside others that do not, and theirs stay where they are", async () => {
    const rows: (readonly number[])[] = [];
    const start = device.session.start.bind(device.session);
    vi.spyOn(device.session, "start").mockImplementation(async (...given) => {
      const begun = await start(...given);
      expect(Object.keys(given[1] ?? {})).not.toContain("logits");
      void begun.results.then(({ host_logits: logits }) => logits && rows.push(logits.dims.slice(0, 2)));
      return begun;
    });
    const engine = createEngine(device);
    const heard = drawn.map((sampling, at) =>
      submit(engine, { prompt: prompts[at], maxTokens: 8, sampling, ...(at === 1 ? { logprobs: 2 } : {}) }),
    );
    await Promise.all(heard.map(({ over }) => over));
    expect(heard.map(({ tokens }) => tokens)).toEqual(await alone());
    expect(heard.map(({ made }) => made.every(({ top }) => top?.length === 2))).toEqual(drawn.map((_, at) => at === 1));
    expect(rows.length).toBeGreaterThan(0);
    for (const dims of rows) expect(dims).toEqual([1, 1]);
    await engine.close();
    vi.restoreAllMocks();
  });

  /** Counts the steps that are under way at a time, and those that are begun at once. */
  const watched = (): { readonly most: () => number; readonly counts: number[] } => {
    const decoder = device.pagedDecoder!;
    const begin = decoder.begin.bind(decoder);
    const counts: number[] = [];
    let [underWay, most] = [0, 0];
    vi.spyOn(decoder, "begin").mockImplementation(async (...given) => {
      const begun = await begin(...given);
      counts.push(given[2]);
      most = Math.max(most, ++underWay);
      const over = (): void => void underWay--;
      begun.results.then(over, over);
      return begun;
    });
    return { most: () => most, counts };
  };

  test("steps are begun before the ids of those before them have come, and several at once", async () => {
    const watch = watched();
    const engine = createEngine(device);
    const heard = drawn.map((sampling, at) =>
      submit(engine, { prompt: prompts[at], maxTokens: 24, sampling, tokensAtOnce: 4 }),
    );
    await Promise.all(heard.map(({ over }) => over));
    const wanted = await Promise.all(
      drawn.map((options, at) => tokensAlone(host, prompts[at], { maxTokens: 24, ...options })),
    );
    expect(heard.map(({ tokens }) => tokens)).toEqual(wanted);
    expect(watch.most()).toBeGreaterThan(1);
    expect(Math.max(...watch.counts)).toBe(4);
    await engine.close();
    vi.restoreAllMocks();
  });

  test("penalties stay with their texts when those before them leave, several steps at once", async () => {
    const engine = createEngine(device);
    // Six rows are left by six texts and by five: the first one leaves early.
    const asked = Array.from({ length: 6 }, (_, at) => ({
      prompt: [20 + 7 * at, 3, 90 - at],
      sampling: { repetitionPenalty: 1.5 },
      maxTokens: at === 0 ? 7 : 24,
    }));
    const heard = asked.map((ask) => submit(engine, { ...ask, tokensAtOnce: 3 }));
    await Promise.all(heard.map(({ over }) => over));
    const wanted = await Promise.all(
      asked.map(({ prompt, sampling, maxTokens }) => tokensAlone(host, prompt, { maxTokens, ...sampling })),
    );
    expect(heard.map(({ tokens }) => tokens)).toEqual(wanted);
    await engine.close();
  });

  test("texts come and leave at any time, in a pool that is too small for them", async () => {
    const seed = Number(process.env["INSITU_SEED"] ?? (soak ? Math.floor(Math.random() * 2 ** 31) : 20261118));
    console.log(`INSITU_SEED=${seed}`);
    let state = seed >>> 0;
    const random = (below: number): number => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    const { path } = folder;
    const lm = await CausalLM.load(path, {
      backend: "webgpu",
      context: 40,
      cache: "paged",
      blockSize: 4,
      keep: 0,
      blocks: 12,
    });
    const engine = createEngine(lm, { tokenBudget: 12, mostRunning: 6, mostWaiting: 500, mostPreemptions: 2 });
    const ways: readonly (readonly [GenerateOptions, Partial<Parameters<typeof submit>[1]>])[] = [
      ...drawn.map((sampling) => [sampling, {}] as const),
      [{ presencePenalty: 0.5 }, {}],
      [{ temperature: 1, seed: 5 }, { logprobs: 2 }],
      [{ temperature: 1.5, seed: 9 }, { minTokens: 5 }],
      [{ repetitionPenalty: 1.2 }, { tokensAtOnce: 3 }],
    ];
    const beginning = [9, 8, 7, 6, 5, 4, 3, 2, 1];
    const asked = Array.from({ length: soak ? 200 : 16 }, () => {
      const own = Array.from({ length: 1 + random(12) }, () => random(256));
      const [sampling, more] = ways[random(ways.length)];
      const maxTokens = 6 + random(16);
      // A quick device begins several steps at once by itself: here a slow one does as well, beside texts whose blocks are kept.
      const series = random(2) === 0 ? {} : { tokensAtOnce: 1 + random(6) };
      return {
        prompt: random(2) === 0 ? own : [...beginning, ...own],
        sampling,
        more: { ...series, ...more },
        maxTokens,
      };
    });
    const heard = [];
    const cancelled = new Set<number>();
    for (const [at, { prompt, sampling, more, maxTokens }] of asked.entries()) {
      heard.push(submit(engine, { prompt, maxTokens, sampling, tenant: `tenant ${random(3)}`, ...more }));
      for (let turns = random(8); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
      const other = random(at + 1);
      if (random(6) > 0 || heard[other].end !== undefined) continue;
      cancelled.add(other);
      heard[other].text.cancel();
    }
    await Promise.all(heard.flatMap(({ over }, at) => (cancelled.has(at) ? [] : [over])));
    for (const [at, { prompt, sampling, maxTokens }] of asked.entries()) {
      const alone = await tokensAlone(host, prompt, { maxTokens, ...sampling });
      expect(heard[at].error, `text ${at}`).toBeUndefined();
      expect(heard[at].tokens, `text ${at}`).toEqual(alone.slice(0, heard[at].tokens.length));
      if (!cancelled.has(at)) expect(heard[at].tokens).toHaveLength(alone.length);
    }
    const { preemptions, steps, reusedTokens } = engine.figures();
    console.log({ preemptions, steps, reusedTokens, cancelled: cancelled.size });
    expect(preemptions).toBeGreaterThan(0);
    expect(engine.figures()).toMatchObject({ running: 0, waiting: 0, blocksUsed: 0 });
    await engine.close();
    await lm.release();
  });
});
