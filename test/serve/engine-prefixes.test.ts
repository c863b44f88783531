// Prefixes that outlive a pool: empty pages take over what the first one read, from a folder; only what is the same in
// model, salt and tokens, and whole. The texts stay the same.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { PageStore } from "../../src/base/page-store.js";
import type { LanguageModel } from "../../src/generate/causal-lm.js";
import { CausalLM } from "../../src/index.node.js";
import { openPageFolder } from "../../packages/stores/page-folder.js";
import { createEngine } from "../../packages/serve/running/create-engine.js";
import { embedded } from "../generate/support.js";
import { type Heard, submit, tokensAlone } from "./engine-support.js";
import { MemoryStore } from "./memory-store.js";

let folder: string;
let model: LanguageModel;
beforeAll(async () => {
  model = await CausalLM.load(embedded, {
    cache: "paged",
    batchInvariant: true,
    threads: 1,
    context: 200,
    blocks: 40,
    keep: 0,
  });
});
afterAll(() => model.release());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "insitu-pages-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const prompt = Array.from({ length: 100 }, (_, at) => 300 + ((at * 37) % 1000));

/** One text in an engine of its own, on pages that know nothing. */
async function once(store: PageStore, salt: string, fingerprint = "the embedded model"): Promise<Heard> {
  model.pages!.pool.forgetPrefixes();
  const engine = createEngine(model, { prefixes: { store, fingerprint } });
  const heard = submit(engine, { prompt, maxTokens: 30, salt });
  await heard.over;
  await engine.close();
  expect(engine.figures()).toMatchObject({ waiting: 0, running: 0, blocksUsed: 0 });
  return heard;
}

test("a prompt that was read before a restart is not read again, with the same salt and model only", async () => {
  const first = await once(await openPageFolder(folder, 2 ** 26), "a");
  const again = await once(await openPageFolder(folder, 2 ** 26), "a");
  const other = await once(await openPageFolder(folder, 2 ** 26), "b");
  const changed = await once(await openPageFolder(folder, 2 ** 26), "a", "another model");
  expect([first, again, other, changed].map(({ cachedTokens }) => cachedTokens)).toEqual([0, 96, 0, 0]);
  for (const { tokens } of [again, other, changed]) expect(tokens).toEqual(first.tokens);
});

test("a damaged file ends what is taken over, and is written anew", async () => {
  const first = await once(await openPageFolder(folder, 2 ** 26), "a");
  const files = readdirSync(folder).toSorted(
    (a, b) => statSync(join(folder, a)).mtimeMs - statSync(join(folder, b)).mtimeMs,
  );
  // 100 of the prompt's and 29 of the text's tokens were read: 8 full blocks.
  expect(files.length).toBe(8);
  for (const file of files) {
    const bytes = readFileSync(join(folder, file));
    bytes[bytes.length - 1] ^= 1;
    writeFileSync(join(folder, file), bytes);
  }
  const again = await once(await openPageFolder(folder, 2 ** 26), "a");
  const whole = await once(await openPageFolder(folder, 2 ** 26), "a");
  expect([again.cachedTokens, whole.cachedTokens]).toEqual([0, 96]);
  expect([again.tokens, whole.tokens]).toEqual([first.tokens, first.tokens]);
});

test("a folder stays within its bytes, and lets go of what was used longest ago", async () => {
  const store = await openPageFolder(folder, 10_000);
  const { signal } = new AbortController();
  const block = (fill: number): Uint8Array => new Uint8Array(3000).fill(fill);
  await store.save(new Map(["a", "b", "c"].map((name) => [name, block(1)])), signal);
  await store.load(["a"], signal);
  await store.save(new Map([["d", block(2)]]), signal);
  expect(await store.load(["b"], signal)).toEqual([]);
  expect((await store.load(["a", "c", "d"], signal)).length).toBe(3);
  await store.save(new Map([["e", new Uint8Array(20_000)]]), signal);
  const bytes = readdirSync(folder).reduce((sum, file) => sum + statSync(join(folder, file)).size, 0);
  expect(bytes).toBeLessThanOrEqual(10_000);
  const reopened = await openPageFolder(folder, 10_000);
  expect(await reopened.load(["a", "b"], signal)).toEqual([Buffer.from(block(1))]);
});

test("fetched blocks that others take before their text has its turn are computed again", async () => {
  // Four beginnings of six blocks each, in a pool that has 20 blocks for them.
  const others = model.pages!.pool.add();
  others.append(20 * 16);
  const prompts = Array.from({ length: 4 }, (_, text) => prompt.map((token) => 300 + ((token + text * 7) % 1000)));
  const alone: number[][] = [];
  for (const each of prompts) alone.push(await tokensAlone(model, each, { maxTokens: 8 }));
  const store = new MemoryStore();
  const all = async (): Promise<readonly [fetched: number, reused: number]> => {
    model.pages!.pool.forgetPrefixes();
    const engine = createEngine(model, { prefixes: { store, fingerprint: "the embedded model" }, mostRunning: 1 });
    const heard = prompts.map((each) => submit(engine, { prompt: each, maxTokens: 8 }));
    await Promise.all(heard.map(({ over }) => over));
    await engine.close();
    expect(heard.map(({ tokens }) => tokens)).toEqual(alone);
    expect(engine.figures()).toMatchObject({ blocksUsed: 20 });
    const reused = heard.reduce((sum, { cachedTokens }) => sum + cachedTokens!, 0);
    return [engine.figures().store!.hits * 16, reused];
  };
  await all();
  const [fetched, reused] = await all();
  others.release();
  expect(fetched).toBeGreaterThanOrEqual(18 * 16);
  expect(reused).toBeLessThan(fetched);
});

test("a folder that has grown too large is cut when it is opened, and rid of what was never finished", async () => {
  const { signal } = new AbortController();
  const store = await openPageFolder(folder, 100_000);
  await store.save(new Map(Array.from({ length: 20 }, (_, at) => [`${at}`, new Uint8Array(3000)])), signal);
  const [old, fresh] = ["old.1.1.part", "fresh.1.1.part"].map((name) => join(folder, name));
  for (const file of [old, fresh]) writeFileSync(file, "half");
  utimesSync(old, 0, 0);
  await openPageFolder(folder, 10_000);
  const files = readdirSync(folder);
  expect([
    files.filter((name) => name.endsWith(".page")).length,
    files.filter((name) => name.endsWith(".part")),
  ]).toEqual([3, ["fresh.1.1.part"]]);
});

test("a store that fails is as if it were empty", async () => {
  const broken: PageStore = {
    load: () => Promise.reject(new Error("away")),
    save: () => Promise.reject(new Error("away")),
    close: () => Promise.reject(new Error("away")),
  };
  const { end, cachedTokens } = await once(broken, "a");
  expect([end, cachedTokens]).toEqual(["max-tokens", 0]);
});
