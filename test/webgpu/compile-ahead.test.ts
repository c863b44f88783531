// CausalLM.load on a GPU has the shaders of a first prompt compiled while weights come, tells how far it is, and leaves nothing of it.
import { statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { CausalLM } from "../../src/entry/node.js";
import type { LoadProgress } from "../../src/session/load-progress.js";
import { hubFolder } from "../generate/support.js";
import { noWebgpu } from "../support/backends.js";
import { LosableGpu } from "../support/losable-gpu.js";

describe.skipIf(noWebgpu !== undefined)("shaders are compiled while weights come", () => {
  let folder: ReturnType<typeof hubFolder>;
  beforeAll(() => void (folder = hubFolder("llama_op24")));
  afterAll(() => folder.remove());

  /** A text, and how often its session was told of pipelines that it waited for. */
  async function textOf(compileAhead: boolean): Promise<{ text: string; waited: string; told: LoadProgress[] }> {
    const told: LoadProgress[] = [];
    const lm = await CausalLM.load(folder.path, {
      backend: "webgpu",
      // Sessions that ask alike share a device and its pipelines: each of these has its own.
      webgpu: { powerPreference: "low-power", f16: !compileAhead, compileAhead },
      onProgress: (_loaded, _total, progress) => told.push(progress),
    });
    const before = /(\d+) pipelines: /.exec(lm.session.explain())![1];
    const text = await lm.generate("The wolf", { maxTokens: 8, temperature: 0, ignoreEnd: true }).text();
    await lm.release();
    return { text, waited: before, told };
  }

  test("the text is the same, and pipelines were there before it", async () => {
    const [ahead, late] = [await textOf(true), await textOf(false)];
    expect(ahead.text).toBe(late.text);
    expect(Number(late.waited)).toBe(0);
    expect(Number(ahead.waited)).toBeGreaterThan(5);
    expect(ahead.told.some(({ pipelines }) => pipelines.total > 5)).toBe(true);
    expect(late.told.every(({ pipelines }) => pipelines.total === 0)).toBe(true);
    const phases = [...new Set(ahead.told.map(({ phase }) => phase))];
    expect(phases).toEqual(["model", "plan", "weights", "ready"]);
    expect(ahead.told.at(-1)!.phase).toBe("ready");
  });

  test("where there is no memory for a context, the model is loaded all the same, and texts are refused", async () => {
    const memoryLimit = statSync(join(folder.path, "onnx", "model.onnx")).size + 1000;
    const lm = await CausalLM.load(folder.path, { backend: "webgpu", webgpu: { compileAhead: true }, memoryLimit });
    await expect(lm.generate("The wolf", { maxTokens: 2 }).text()).rejects.toMatchObject({ code: "out-of-memory" });
    await lm.release();
  });

  test("a shader that was not compiled ahead is compiled with the prompt", async () => {
    const gpu = new LosableGpu();
    try {
      gpu.failing = 3;
      const webgpu = { powerPreference: "low-power", subgroups: false, compileAhead: true } as const;
      const lm = await CausalLM.load(folder.path, { backend: "webgpu", webgpu });
      await expect.poll(() => gpu.failing).toBe(0);
      const text = await lm.generate("The wolf", { maxTokens: 8, temperature: 0, ignoreEnd: true }).text();
      await lm.release();
      expect(text).toBe((await textOf(false)).text);
    } finally {
      gpu.restore();
    }
  });

  test("what is wrong with the tokenizer is told, and the device is given back", async () => {
    const broken = hubFolder("llama_op24", { "tokenizer.json": { model: { type: "BPE", vocab: 3, merges: [] } } });
    await expect(CausalLM.load(broken.path, { backend: "webgpu" })).rejects.toThrow(InsituError);
    broken.remove();
  });
});
