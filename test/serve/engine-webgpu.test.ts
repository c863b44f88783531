// The engine on a device: tokens are drawn there where a text's options allow it, each by options of its own, and come to the host without
// their logits. The texts are those that the host makes alone.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { generatedDecoder, smallSizes } from "../../src/demo/decoder.js";
import { CausalLM } from "../../src/entry/node.js";
import type { GenerateOptions } from "../../src/generate/options.js";
import { writeModel } from "../../src/onnx/write.js";
import { createEngine } from "../../src/serve/running/create-engine.js";
import { hubFolder } from "../generate/support.js";
import { noWebgpu } from "../support/backends.js";
import { submit, tokensAlone } from "./engine-support.js";

const soak = process.env["INSITU_SOAK"] !== undefined;
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

  test.skipIf(!soak)("a text that needs its logits has them beside others that do not", async () => {
    const engine = createEngine(device);
    const heard = drawn.map((sampling, at) =>
      submit(engine, { prompt: prompts[at], maxTokens: 8, sampling, ...(at === 1 ? { logprobs: 2 } : {}) }),
    );
    await Promise.all(heard.map(({ over }) => over));
    expect(heard.map(({ tokens }) => tokens)).toEqual(await alone());
    expect(heard.map(({ made }) => made.every(({ top }) => top?.length === 2))).toEqual(drawn.map((_, at) => at === 1));
    await engine.close();
  });
});
