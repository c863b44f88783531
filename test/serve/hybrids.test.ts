// Texts of a model that keeps states without rows, beside each other on pages that do not suffice: preempted, cancelled, sharing prefixes. Each is the text
// that a fresh reading on linear caches makes; prefixes that were seen are not read again.
import { afterAll, expect, test, vi } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { createEngine } from "../../packages/serve/running/create-engine.js";
import type { Tensor } from "../../src/tensor/tensor.js";
import { hybridFolder } from "../support/hybrid-decoder.js";
import { submit, tokensAlone } from "./engine-support.js";
import { soak } from "../support/soak.js";

const folder = hybridFolder({ positions: 2304 });
afterAll(() => folder.remove());

/** Tokens that a model's runs read from now on. */
function countRead(lm: CausalLM): () => number {
  const run = vi.spyOn(lm.session, "run");
  return () =>
    run.mock.calls.reduce((sum, [feeds]) => {
      const { dims } = (feeds as Record<string, Tensor>)["input_ids"];
      return sum + dims[0] * dims[1];
    }, 0);
}

test("random requests on few blocks: each text is the one that a fresh reading makes", async () => {
  const random = seededRandom(5);
  const below = (count: number): number => Math.floor(random() * count);
  const letters = (count: number): number[] => Array.from({ length: count }, () => 33 + below(90));
  const beginnings = [[], letters(24), letters(41)];
  const kinds = Array.from({ length: soak ? 200 : 16 }, () => ({
    prompt: [...beginnings[below(3)], ...letters(1 + below(30))],
    maxTokens: 1 + below(24),
  }));
  const fresh = await CausalLM.load(folder.path, { threads: 1, context: 160, keep: 0 });
  const wanted: number[][] = [];
  for (const { prompt, maxTokens } of kinds)
    wanted.push(await tokensAlone(fresh, prompt, { maxTokens, temperature: 0, ignoreEnd: true }));
  await fresh.release();
  for (const cacheType of ["same", "float8e4m3fn"] as const) {
    const shape = { cache: "paged", cacheType, threads: 1, context: 160, blockSize: 8, blocks: 22, keep: 0 } as const;
    const model = await CausalLM.load(folder.path, shape);
    const engine = createEngine(model, {
      tokenBudget: 32,
      mostRunning: 6,
      mostWaiting: 5000,
      mostPreemptions: 2,
      watermark: 0,
    });
    const wrong: string[] = [];
    const heard = Array.from({ length: soak ? 1000 : 60 }, (_, request) => {
      const kind = below(kinds.length);
      const { prompt, maxTokens } = kinds[kind];
      const sampling = { temperature: 0 };
      const own = submit(engine, { prompt, maxTokens, sampling, tenant: `tenant ${below(3)}` });
      const isCancelled = below(10) === 0;
      if (isCancelled) setTimeout(() => own.text.cancel(), below(40));
      const over = own.over.then(() => {
        const isRight = cacheType !== "same" || own.tokens.join() === wanted[kind].join();
        if (own.error !== undefined || !isRight)
          wrong.push(`request ${request} of kind ${kind}: ${own.error?.message ?? own.tokens.join()}`);
      });
      return isCancelled ? Promise.resolve() : over;
    });
    await Promise.all(heard);
    expect(wrong, cacheType).toEqual([]);
    expect(engine.figures().preemptions).toBeGreaterThan(0);
    await engine.close();
    expect(model.pages!.pool.sequences).toEqual([]);
    await model.release();
  }
});

test("of a prefix of 2,000 tokens that was seen, only its last block is read again; a store says that it cannot keep it", async () => {
  const lm = await CausalLM.load(folder.path, { cache: "paged", threads: 1, context: 2200, keep: 0 });
  const engine = createEngine(lm);
  const prompt = Array.from({ length: 2000 }, (_, at) => 33 + ((at * 7 + (at >> 5)) % 90));
  const read = countRead(lm);
  const ask = { prompt, maxTokens: 1, sampling: { temperature: 0 }, tenant: "one" };
  const first = submit(engine, ask);
  await first.over;
  const cold = read();
  expect(cold).toBeGreaterThanOrEqual(2000);
  const again = submit(engine, ask);
  await again.over;
  expect(read() - cold).toBeLessThanOrEqual(16);
  expect(again.tokens).toEqual(first.tokens);
  // One that parts from it in the middle reads from the last checkpoint before on.
  const parted = submit(engine, { ...ask, prompt: [...prompt.slice(0, 1000), ...prompt.slice(0, 20)] });
  const before = read();
  await parted.over;
  expect(read() - before).toBeLessThan(300);
  await engine.close();
  const store = { load: async () => [], save: async () => {}, close: async () => {} };
  expect(() => createEngine(lm, { prefixes: { store, fingerprint: "x" } as never })).toThrow(
    /option prefixes keeps blocks of keys and values, and the model also has recurrent states/,
  );
  await lm.release();
});
