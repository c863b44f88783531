// Guesses of a draft where both models run on a device: texts are what they are without, alone, in a batch and on pages, whoever guesses; guesses are drawn and checked there, so
// that ids come to the host and no logits; rounds make nothing anew on the device; and a draft that fails leaves texts that go ahead of the host. In the models the next
// token is a function of the last one.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import type { GenerateOptions } from "../../src/generate/options.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModelFolder } from "../../tools/bench/device/model-files.js";
import { submitting } from "../../src/webgpu-kernels/tuning.js";
import { TemporaryFolder } from "../../tools/bench/temporary-folder.js";
import { publishedDecoder, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { noWebgpu } from "../support/backends.js";

const sizes = { ...smallPublishedSizes, layers: 1 };
const { vocabulary, hidden } = sizes;
const nextOf = (token: number): number => (token + 61) % vocabulary;

/** A decoder whose layer adds next to nothing, and whose embedding of a token is the head's row of what comes behind it. */
function decoder(next: (token: number) => number): Model {
  const weights = { bits: 4, blockSize: 32 } as const;
  const model = publishedDecoder(sizes, { type: "float32", weights, embeddings: "separate" });
  const dataOf = (name: string): Float32Array | Uint8Array =>
    model.graph.initializers.find((each) => each.name === name)!.data as Float32Array | Uint8Array;
  for (const { name } of model.graph.initializers)
    if (/(?:o_proj|down_proj).*_scales$/.test(name)) dataOf(name).fill(1e-5);
  dataOf("lm_head.MatMul.weight_scales").fill(0.25);
  const [levels, rows] = [dataOf("lm_head.MatMul.weight_Q4"), dataOf("model.embed_tokens.weight")];
  rows.forEach((_, at) => {
    const from = next(Math.floor(at / hidden)) * hidden + (at % hidden);
    rows[at] = 0.25 * (((levels[from >> 1] >> ((from & 1) * 4)) & 15) - 8);
  });
  return model;
}

describe.skipIf(noWebgpu !== undefined)("a draft on a device", () => {
  const root = new TemporaryFolder();
  let [linear, paged]: CausalLM[] = [];
  const drafts = new Map<string, CausalLM>();
  const kinds = ["right", "wrong now and then", "wrong"];
  /** Buffers that came to the host, by their bytes. */
  let mapped: number[] = [];
  /** What was asked of the device. */
  const asked = { submit: 0, createBindGroup: 0, createBuffer: 0 };
  let restore = (): void => {};

  beforeAll(async () => {
    const { globals } = await import("webgpu");
    const types = globals as Record<string, { readonly prototype: Record<string, (...given: unknown[]) => unknown> }>;
    const counted = (["GPUQueue submit", "GPUDevice createBindGroup", "GPUDevice createBuffer"] as const).map(
      (each) => {
        const [type, name] = each.split(" ") as [string, keyof typeof asked];
        const { prototype: own } = types[type];
        const before = own[name];
        own[name] = function (...given) {
          asked[name]++;
          return before.apply(this, given);
        };
        return (): void => void (own[name] = before);
      },
    );
    const { prototype } = (globals as { readonly GPUBuffer: { readonly prototype: GPUBuffer } }).GPUBuffer;
    const mapAsync = Reflect.get(prototype, "mapAsync") as (this: GPUBuffer, ...given: unknown[]) => Promise<undefined>;
    prototype.mapAsync = function (mode, offset, size) {
      if (mode === 1) mapped.push(size ?? this.size);
      return mapAsync.call(this, mode, offset, size);
    };
    restore = () => {
      Object.assign(prototype, { mapAsync });
      for (const each of counted) each();
    };
    const open = (name: string, next: (token: number) => number, pages = false): Promise<CausalLM> => {
      const folder = join(root.path(), name);
      mkdirSync(folder);
      writeModelFolder(folder, decoder(next), sizes, "qwen3");
      const options = pages ? ({ cache: "paged", blockSize: 4, blocks: 96 } as const) : {};
      return CausalLM.load(folder, { backend: "webgpu", context: 64, ...options });
    };
    linear = await open("linear", nextOf);
    paged = await open("paged", nextOf, true);
    drafts.set(kinds[0], await open("right", nextOf));
    drafts.set(kinds[1], await open("some", (token) => nextOf(token % 5 === 0 ? token + 1 : token), true));
    drafts.set(kinds[2], await open("none", (token) => nextOf(token + 1)));
    drafts.set("right, on pages", await open("right-pages", nextOf, true));
  });
  afterAll(async () => {
    restore();
    for (const model of [linear, paged, ...drafts.values()]) await model?.release();
    root.remove();
  });

  const prompts = [
    [3, 14, 15],
    [92, 65, 35, 89, 79],
    [32, 38],
  ];
  const textOf = async (lm: CausalLM, prompt: number[], options: GenerateOptions) => {
    const tokens: number[] = [];
    const generation = lm.generate(prompt, { ignoreEnd: true, maxTokens: 16, ...options });
    for await (const { token } of generation) tokens.push(token);
    return { tokens, summary: generation.summary };
  };
  const expected = ([...prompt]: number[], count = 16): number[] => {
    for (let at = 0; at < count; at++) prompt.push(nextOf(prompt.at(-1)!));
    return prompt.slice(-count);
  };

  test.each(kinds)("that is %s makes no other greedy texts", async (kind) => {
    const draft = drafts.get(kind)!;
    for (const lm of kind === kinds[1] ? [linear, paged] : [linear])
      for (const speculate of [
        { draft, tokens: 3, adaptive: false },
        { draft, tokens: 4 },
      ]) {
        const { tokens, summary } = await textOf(lm, prompts[0], { temperature: 0, speculate });
        expect(tokens).toEqual(expected(prompts[0]));
        if (speculate.adaptive !== false) continue;
        expect(summary.guessedTokens).toBeGreaterThan(5);
        expect(summary.rightGuesses / summary.guessedTokens).toBeCloseTo(
          { [kinds[0]]: 1, [kinds[2]]: 0 }[kind] ?? 0.5,
          0,
        );
        const made = prompts.map(() => [] as number[]);
        const options = { temperature: 0, ignoreEnd: true, maxTokens: 8, speculate };
        for await (const { sample, token } of lm.generateBatch(prompts, options)) made[sample].push(token);
        expect(made).toEqual(prompts.map((prompt) => expected(prompt, 8)));
      }
  });

  test("makes no other texts of chance", async () => {
    for (const lm of [linear, paged])
      for (const draft of [drafts.get(kinds[1])!]) {
        // So hot that most tokens are not the likeliest.
        const options = { temperature: 40, seed: 7 };
        const plain = await textOf(lm, prompts[1], options);
        const guessed = await textOf(lm, prompts[1], { ...options, speculate: { draft, tokens: 3, adaptive: false } });
        expect(plain.tokens).not.toEqual(expected(prompts[1]));
        expect(guessed.tokens).toEqual(plain.tokens);
      }
  });

  test("draws with the chance of the text that it follows: one that is the same model is always right", async () => {
    for (const [lm, draft] of [
      [linear, drafts.get(kinds[0])!],
      [paged, drafts.get("right, on pages")!],
    ] as const) {
      const speculate = { draft, tokens: 4, adaptive: false };
      const { tokens, summary } = await textOf(lm, prompts[1], { temperature: 40, seed: 7, speculate });
      expect(tokens).not.toEqual(expected(prompts[1]));
      expect(summary).toMatchObject({ guessedTokens: 12, rightGuesses: 12, guessedRuns: 3 });
    }
  });

  // On linear caches a draft reads the last of its guesses by itself, and then draws four; on pages it reads it with the token behind it, and draws that one first: what
  // goes on from there is put in its place by a copy. All of them are begun before the first has come.
  test.each([
    ["linear caches", 5, 3],
    ["pages", 6, 3],
  ])(
    "on %s makes nothing anew in a round: %i submissions, of which the host waits for %i",
    async (place, submissions, waits) => {
      const [lm, draft] = place === "pages" ? [paged, drafts.get("right, on pages")!] : [linear, drafts.get(kinds[0])!];
      const options = { temperature: 0, speculate: { draft, tokens: 4, adaptive: false } };
      const run = async (rounds: number) => {
        Object.assign(asked, { submit: 0, createBindGroup: 0, createBuffer: 0 });
        mapped = [];
        const { tokens, summary } = await textOf(lm, prompts[0], { ...options, maxTokens: 1 + 5 * rounds });
        expect(tokens).toEqual(expected(prompts[0], 1 + 5 * rounds));
        expect(summary).toMatchObject({ guessedTokens: 4 * rounds, rightGuesses: 4 * rounds, guessedRuns: rounds });
        return { ...asked, mapped: mapped.length };
      };
      await run(8);
      await run(8);
      const [few, many] = [await run(3), await run(8)];
      expect(many).toMatchObject({ createBindGroup: few.createBindGroup, createBuffer: few.createBuffer });
      expect([(many.submit - few.submit) / 5, (many.mapped - few.mapped) / 5]).toEqual([submissions, waits]);
    },
  );

  test("hands ids to the host, five of them in three waits", async () => {
    const speculate = { draft: drafts.get(kinds[0])!, tokens: 4, adaptive: false };
    await textOf(linear, prompts[0], { temperature: 0, speculate });
    mapped = [];
    await textOf(linear, prompts[0], { temperature: 0, speculate });
    // One for the prompt, and three for each round.
    expect(mapped.length).toBeLessThanOrEqual(1 + 3 * Math.ceil(15 / 5));
    expect(Math.max(...mapped)).toBeLessThan(4 * vocabulary);
  });

  test("makes the same texts where the device has the first dispatches of a run while the others are encoded", async () => {
    const { firstDispatches } = submitting;
    const run = async (): Promise<number> => {
      asked.submit = 0;
      const speculate = { draft: drafts.get(kinds[1])!, tokens: 4, adaptive: false };
      for (const lm of [linear, paged])
        expect((await textOf(lm, prompts[1], { temperature: 0, speculate })).tokens).toEqual(expected(prompts[1]));
      return asked.submit;
    };
    const whole = await run();
    Reflect.set(submitting, "firstDispatches", 2);
    try {
      expect(await run()).toBeGreaterThan(whole + 8);
    } finally {
      Reflect.set(submitting, "firstDispatches", firstDispatches);
    }
  });

  test("ends texts where they end, whatever was guessed behind", async () => {
    const [end] = expected(prompts[0], 7).slice(-1);
    for (const draft of drafts.values()) {
      const speculate = { draft, tokens: 4, adaptive: false };
      const options = { temperature: 0, ignoreEnd: false, stopTokens: [end], speculate };
      for (const lm of [linear, paged])
        expect((await textOf(lm, prompts[0], options)).tokens).toEqual(expected(prompts[0], 6));
    }
  });

  test("that is left alone does not hold texts back", async () => {
    const speculate = { draft: drafts.get(kinds[2])!, tokens: 2 };
    const { tokens, summary } = await textOf(linear, prompts[0], { temperature: 0, maxTokens: 56, speculate });
    expect(tokens).toEqual(expected(prompts[0], 56));
    expect(summary.guessedTokens).toBeLessThan(28);
  });
});
