// A server on a GPU compiles the shaders of usual steps before it is ready, and nothing of that is left in its pool.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { usualSteps } from "../../packages/serve/running/warm-texts.js";
import { CausalLM } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { createEngine } from "../../packages/serve/running/create-engine.js";
import { createServer } from "../../packages/serve/server.js";
import { hubFolder } from "../generate/support.js";
import { noWebgpu } from "../support/backends.js";
import { LosableGpu } from "../support/losable-gpu.js";
import { until } from "./scripted-engine.js";

test("the usual steps: what most texts need first, within what a server allows", () => {
  const told = (texts: number, tokens: number, context: number): readonly string[] =>
    usualSteps({ texts, tokens, context }).map((lengths) => `${lengths.length} × ${lengths[0]}`);
  const short = ["1 × 24", "1 × 16", "1 × 12", "1 × 8", "1 × 6", "1 × 4", "1 × 3", "1 × 2"];
  // 8 to 128 tokens of 6 texts: all numbers of tokens that mixed runs are filled up to.
  const mixed = ["6 × 1", "6 × 2", "6 × 2", "6 × 4", "6 × 5", "6 × 8", "6 × 10", "6 × 16", "6 × 21"];
  expect(told(6, 1024, 30)).toEqual(["6 × 29", "1 × 1", "1 × 29", "4 × 29", "2 × 5", "3 × 5", ...short, ...mixed]);
  // The largest first; then as many tokens as a run reads, for each number of sequences that runs are filled up to.
  expect(told(64, 1024, 3000).slice(0, 7)).toEqual([
    "64 × 16",
    "1 × 1",
    "1 × 1024",
    "1 × 2048",
    "2 × 2048",
    "4 × 256",
    "16 × 64",
  ]);
  expect(usualSteps({ texts: 64, tokens: 1024, context: 3000 })[4]).toEqual([2048, 5]);
  expect(told(1000, 60, 2).slice(0, 4)).toEqual(["48 × 1", "1 × 1", "4 × 1", "16 × 1"]);
  expect(told(5, 3, 8)).toEqual(["3 × 1", "1 × 1", "1 × 3", "1 × 6", "2 × 6", "2 × 1", "1 × 2"]);
  const sums = usualSteps({ texts: 64, tokens: 1024, context: 3000 }).map((lengths) =>
    lengths.reduce((sum, length) => sum + length, 0),
  );
  expect(Math.max(...sums)).toBe(2053);
});

test("on a processor there is nothing to compile", async () => {
  const lm = await CausalLM.load(undefined, { threads: 1, cache: "paged" });
  const engine = createEngine(lm);
  expect(engine.warm).toBeUndefined();
  await engine.close();
  await lm.release();
});

/** Sessions that ask alike share a device, for a while after the last of them too: no other suite asks for this one. */
const ownDevice = { backend: "webgpu", webgpu: { powerPreference: "low-power", subgroupMatrices: false } } as const;

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  let folder: ReturnType<typeof hubFolder>;
  let gpu: LosableGpu;
  beforeAll(() => {
    gpu = new LosableGpu();
    folder = hubFolder("llama", {
      "onnx/model.onnx": writeModel(generatedDecoder({ ...smallSizes, vocabulary: 256 })),
      "generation_config.json": { eos_token_id: 256 },
    });
  });
  afterAll(() => {
    gpu?.restore();
    folder?.remove();
  });

  test("first requests compile nothing, and find the pool as it was", async () => {
    let compiled = 0;
    const lm = await CausalLM.load(folder.path, {
      ...ownDevice,
      context: 64,
      cache: "paged",
      blockSize: 4,
      webgpu: { ...ownDevice.webgpu, onPipelines: () => void compiled++ },
    });
    const engine = createEngine(lm, { mostRunning: 4 });
    const { warm } = engine;
    // However long it takes.
    const server = createServer(lm, { engine: () => Object.assign(engine, { warm: () => warm!(Infinity) }) });
    expect((await server.fetch(new Request("http://localhost/health"))).status).toBe(503);
    await server.ready;
    expect((await server.fetch(new Request("http://localhost/health"))).status).toBe(200);
    expect(compiled).toBeGreaterThan(0);
    expect(lm.pages!.pool.statistics).toMatchObject({ blocks: 64, used: 0, kept: 0, free: 64 });
    expect(lm.pages!.pool.sequences).toEqual([]);
    const ready = gpu.pipelines;
    expect(ready).toBeGreaterThan(0);
    const ask = async (prompt: number): Promise<void> => {
      const body = { prompt: Array.from({ length: prompt }, (_, at) => prompt + at), max_tokens: 6, ignore_eos: true };
      const request = new Request("http://localhost/v1/completions", { method: "POST", body: JSON.stringify(body) });
      const response = await server.fetch(request);
      expect(((await response.json()) as { usage: object }).usage).toMatchObject({
        completion_tokens: 6,
        prompt_tokens_details: { cached_tokens: 0 },
      });
    };
    for (const length of [5, 20, 37, 55, 9, 1]) await ask(length);
    expect(gpu.pipelines).toBe(ready);
    await server.close();
    await lm.release();
  });

  test("a device that is lost while shaders are compiled is one that is lost", async () => {
    gpu.lose();
    const load = (): Promise<CausalLM> =>
      CausalLM.load(folder.path, { ...ownDevice, context: 32, cache: "paged", blockSize: 4 });
    const lines: string[] = [];
    const server = createServer(load(), { maxRunning: 1, reload: load, tell: (line) => void lines.push(line) });
    const [opened, before] = [gpu.opened, gpu.pipelines];
    await until(() => gpu.opened > opened && gpu.pipelines > before);
    gpu.lose();
    await server.ready;
    expect(gpu.opened).toBe(opened + 2);
    expect(lines).toHaveLength(2);
    expect(server.status).toBe("ready");
    await server.close();
  });
});
