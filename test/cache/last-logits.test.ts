// Models that hand out the logits of the last token alone, on pages: their texts are those of linear caches.
import { expect, test } from "vitest";
import { Logits } from "../../src/decoder/logits.js";
import { publishedDecoder, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { CausalLM } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { hubFolder, tokensOf } from "../generate/support.js";

test.each(["last", "all"] as const)("logits of %s tokens", async (logits) => {
  const model = publishedDecoder(
    { ...smallPublishedSizes, vocabulary: 256 },
    { type: "float32", weights: "plain", logits },
  );
  const folder = hubFolder("llama", {
    "onnx/model.onnx": writeModel(model),
    "generation_config.json": { eos_token_id: 256 },
  });
  const texts = [];
  for (const cache of ["linear", "paged"] as const) {
    const lm = await CausalLM.load(folder.path, { cache, context: 64, chunk: 8, threads: 1 });
    const prompt = Array.from({ length: 19 }, (_, at) => (at * 37) % 256);
    const own = [(await tokensOf(lm.generate(prompt, { maxTokens: 9, temperature: 0 }))).map(({ token }) => token)];
    const batch: number[][] = [[], []];
    const prompts = [prompt, prompt.slice(0, 5)];
    for await (const { sample, token } of lm.generateBatch(prompts, { maxTokens: 6, temperature: 0 }))
      batch[sample].push(token);
    texts.push([...own, ...batch]);
    await lm.release();
  }
  folder.remove();
  expect(texts[1]).toEqual(texts[0]);
  expect(texts[0].map(({ length }) => length)).toEqual([9, 6, 6]);
});

test("logits that the model did not give are told, not taken from another token", () => {
  const given = new Logits(Float32Array.of(1, 2, 3, 4), 1, 2);
  expect([...given.at(0, 1)]).toEqual([3, 4]);
  expect(() => given.at(1, 1)).toThrow(/logits of the last 1 tokens of a run.*speculate/);
});
