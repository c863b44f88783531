// A folder in the hub's layout as the project's own script makes it: three variants of the embedded model, one with its weights in a file
// of their own. Each loads without a network and tells a story.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { embedded, tokensOf } from "./support.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-folder-"));
beforeAll(() => {
  const script = fileURLToPath(new URL("../../training/hub-folder.mjs", import.meta.url));
  execFileSync(process.execPath, [script, folder]);
});
afterAll(() => rmSync(folder, { recursive: true }));

const prompt = "Once upon a time there was a king who had";

/** The text's log-probability a token, by the model that is loaded from `source`. */
async function story(source: string, variant?: string): Promise<{ readonly text: string; readonly mean: number }> {
  const lm = await CausalLM.load(source, { inPlace: "require", ...(variant === undefined ? {} : { variant }) });
  const generation = lm.generate(prompt, { maxTokens: 24, temperature: 0, logprobs: true });
  const tokens = await tokensOf(generation);
  expect(generation.summary).toMatchObject({ newTokens: 24, movedBytes: 0 });
  await lm.release();
  return {
    text: generation.textSoFar,
    mean: tokens.reduce((sum, { logprob }) => sum + logprob!, 0) / tokens.length,
  };
}

test("the variants are chosen by name, and say nearly the same", async () => {
  const wanted = await story(embedded);
  const fp32 = await story(folder);
  expect(await story(folder, "fp32")).toEqual(fp32);
  const q8 = await story(folder, "q8");
  const q4 = await story(folder, "q4");
  expect(q8).toEqual(wanted);
  // The 8-bit weights are what the float32 ones were made of.
  expect(fp32.text).toBe(wanted.text);
  expect(fp32.mean).toBeCloseTo(wanted.mean, 3);
  expect(Math.abs(q4.mean - wanted.mean)).toBeLessThan(0.5);
  await expect(story(folder, "bnb4")).rejects.toThrow(/has no model_bnb4\.onnx$/);
});

test("8-bit weights are the embedded file, byte for byte; float32 ones lie beside their model", () => {
  const read = (name: string): Buffer => readFileSync(join(folder, "onnx", name));
  expect(read("model_quantized.onnx").equals(readFileSync(join(embedded, "onnx/model.onnx")))).toBe(true);
  expect(read("model.onnx").length).toBeLessThan(100_000);
  expect(read("model.onnx_data").length).toBeGreaterThan(40_000_000);
});
