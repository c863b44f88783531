// Generations that one model makes at the same time are those that it makes one after the other: none reads another's logits.
import { afterAll, beforeAll, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { CausalLM } from "../../src/entry/node.js";
import type { GenerateOptions } from "../../src/generate/options.js";
import { writeModel } from "../../src/onnx/write.js";
import { hubFolder, tokensOf } from "./support.js";

const ways: readonly GenerateOptions[] = [
  {},
  { temperature: 1.5, seed: 3 },
  { temperature: 2, topK: 7, seed: -4 },
  { temperature: 3, minP: 0.3, seed: 5 },
];

let folder: ReturnType<typeof hubFolder>;
let right: number[][];

const made = async (lm: CausalLM, way: number): Promise<number[]> => {
  const prompt = [11 + way, 7, 200, 31, 5].slice(0, 2 + way);
  return (await tokensOf(lm.generate(prompt, { maxTokens: 8, ...ways[way] }))).map(({ token }) => token);
};

beforeAll(async () => {
  folder = hubFolder("llama", {
    "onnx/model.onnx": writeModel(generatedDecoder({ ...smallSizes, vocabulary: 256 })),
    "generation_config.json": { eos_token_id: 256 },
  });
  const reference = await CausalLM.load(folder.path, { backend: "reference", context: 40 });
  right = [];
  for (const way of ways.keys()) right.push(await made(reference, way));
  await reference.release();
});
afterAll(() => folder?.remove());

test.each([
  ["linear caches", {}],
  ["linear caches that are not kept", { keep: 0 }],
  ["pages", { cache: "paged" }],
  ["pages, each token apart", { cache: "paged", batchInvariant: true }],
] as const)("on %s", async (_, cache) => {
  const lm = await CausalLM.load(folder.path, { backend: "wasm", threads: 1, context: 40, ...cache });
  // Again and again: what a text finds ready changes how soon it goes on.
  for (let round = 0; round < 4; round++)
    expect(await Promise.all([...ways.keys()].map((way) => made(lm, way)))).toEqual(right);
  await lm.release();
});
