// A store seen through its checks: when it is given up and asked again, what is counted, from which length on it pays, and what it can never
// do: bring a row of another model or tenant.
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import type { PageStore } from "../../src/base/page-store.js";
import { nameBlocks } from "../../packages/serve/running/block-names.js";
import type { LanguageModel } from "../../src/generate/causal-lm.js";
import { CausalLM } from "../../src/index.node.js";
import type { StoreFigures } from "../../packages/serve/engine.js";
import { withBreakEven } from "../../packages/serve/running/break-even.js";
import { CheckedStore } from "../../packages/serve/running/checked-store.js";
import { CircuitBreaker } from "../../packages/serve/running/circuit-breaker.js";
import { createEngine } from "../../packages/serve/running/create-engine.js";
import { embedded } from "../generate/support.js";
import { type Heard, submit, tokensAlone } from "./engine-support.js";
import { MemoryStore } from "./memory-store.js";

let model: LanguageModel;
beforeAll(async () => {
  const pages = { cache: "paged", batchInvariant: true, context: 200, blocks: 40, keep: 0 } as const;
  model = await CausalLM.load(embedded, { ...pages, threads: 1 });
});
afterAll(() => model.release());
afterEach(() => void vi.restoreAllMocks());

/** For what comes in its time, however busy the machine is. */
const patient = { timeout: 60_000 };

const prompt = Array.from({ length: 100 }, (_, at) => 300 + ((at * 37) % 1000));

/** One text in an engine of its own, on pages that know nothing, and what became of the store's blocks. */
async function once(
  store: PageStore,
  salt: string,
  fingerprint = "this model",
): Promise<Heard & { store: StoreFigures }> {
  model.pages!.pool.forgetPrefixes();
  const engine = createEngine(model, { prefixes: { store, fingerprint, deadlineMilliseconds: 50 } });
  const heard = submit(engine, { prompt, maxTokens: 10, salt });
  await heard.over;
  await engine.close();
  expect(engine.figures()).toMatchObject({ waiting: 0, running: 0, blocksUsed: 0 });
  return Object.assign(heard, { store: engine.figures().store! });
}

test("pages of another tenant or model under the names that are asked for are refused, and the text is the same", async () => {
  const alone = await tokensAlone(model, prompt, { maxTokens: 10 });
  const store = new MemoryStore();
  const first = await once(store, "a");
  expect([first.tokens, first.store.saved, first.store.dropped]).toEqual([alone, 6, 0]);
  const values = [...store.values.values()];
  for (const [salt, fingerprint] of [
    ["b", "this model"],
    ["a", "another model"],
  ]) {
    const liar = new MemoryStore();
    liar.load = async (names) => names.map((_, at) => values[at]);
    const heard = await once(liar, salt, fingerprint);
    expect([heard.tokens, heard.cachedTokens, heard.store.hits, heard.store.refused]).toEqual([alone, 0, 0, 6]);
  }
  const own = await once(store, "a");
  expect([own.tokens, own.cachedTokens, own.store.hits]).toEqual([alone, 96, 6]);
});

test("what is whole before a damaged value is used, the rest is computed", async () => {
  const alone = await tokensAlone(model, prompt, { maxTokens: 10 });
  const store = new MemoryStore();
  await once(store, "a");
  const [, , , fourth] = store.values.values();
  fourth[fourth.length >> 1] ^= 4;
  const heard = await once(store, "a");
  expect([heard.tokens, heard.cachedTokens]).toEqual([alone, 48]);
  expect(heard.store).toMatchObject({ hits: 3, refused: 1, saved: 3 });
  expect((await once(store, "a")).cachedTokens).toBe(96);
});

test("an answer that is no list of values brings nothing, and a store whose answers are wrong makes new connections", async () => {
  const alone = await tokensAlone(model, prompt, { maxTokens: 10 });
  const answers: readonly unknown[] = [new Uint8Array(300), "x", [1, 2], [[]], { length: 6 }, null, new Array(9)];
  for (const answer of answers) {
    const odd = new MemoryStore();
    odd.load = async () => answer as Uint8Array[];
    const heard = await once(odd, "a");
    expect([heard.tokens, heard.cachedTokens, heard.store.hits]).toEqual([alone, 0, 0]);
  }
  const blocks = nameBlocks("model", "salt", prompt, 16);
  let renewed = 0;
  const wrong = Object.assign(new MemoryStore(), { renew: () => void renewed++ });
  wrong.load = async (names) => names.map(() => new Uint8Array(64));
  const checked = new CheckedStore(wrong, 64, {});
  for (let time = 0; time < 5; time++) expect(await checked.load(blocks)).toEqual([]);
  expect([renewed, checked.figures.refused, checked.figures.reading]).toEqual([1, 18, "open"]);
});

test("a store that never answers holds nobody up, and gives the blocks back that were reserved for it", async () => {
  const silent: PageStore = {
    load: () => new Promise(() => {}),
    save: () => new Promise(() => {}),
    close: async () => {},
  };
  const heard = await once(silent, "a");
  expect([heard.end, heard.cachedTokens]).toEqual(["max-tokens", 0]);
  // What was given up before the text's end is offered once more.
  const { hits, errors, dropped } = heard.store;
  expect([hits, errors >= 2, dropped >= 6, dropped % 6]).toEqual([0, true, true, 0]);
});

test("what a store keeps for a while only is written again before that is over", async () => {
  let later = 0;
  const clock = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => clock() + later);
  const store = new MemoryStore();
  model.pages!.pool.forgetPrefixes();
  const prefixes = { store, fingerprint: "this model", keptMilliseconds: 400_000, deadlineMilliseconds: 60_000 };
  const engine = createEngine(model, { prefixes });
  // On the same pages all the while: the store is not asked.
  for (const [step, saved] of [
    [0, 6],
    [100_000, 6],
    [150_000, 12],
  ]) {
    later += step;
    await submit(engine, { prompt, maxTokens: 2 }).over;
    await vi.waitFor(() => expect(engine.figures().store!.saved).toBe(saved), patient);
  }
  await engine.close();
  expect(engine.figures().store).toMatchObject({ saved: 12, errors: 0 });
});

test("what comes on top of what is on its way to a slow store is dropped and counted, and holds nobody up", async () => {
  const store = new MemoryStore();
  let letGo: () => void = () => {};
  const slow = new Promise<void>((resolve) => void (letGo = resolve));
  const save = vi.spyOn(store, "save").mockImplementation(() => slow);
  model.pages!.pool.forgetPrefixes();
  const pendingBytes = 7 * model.pages!.blockBytes;
  const engine = createEngine(model, {
    prefixes: { store, fingerprint: "this model", pendingBytes, deadlineMilliseconds: 60_000 },
  });
  const texts = [0, 1, 2].map((text) => prompt.map((token) => token + text));
  for (const each of texts) await submit(engine, { prompt: each, maxTokens: 2 }).over;
  // What was dropped is offered once more at a text's end.
  expect(engine.figures().store!.dropped).toBeGreaterThanOrEqual(12);
  expect(engine.figures().store!.saved).toBe(0);
  letGo();
  await engine.close();
  expect(engine.figures().store).toMatchObject({ saved: 6, errors: 0 });
  expect(save).toHaveBeenCalledTimes(1);
});

test("a text that is given up while the store is asked leaves nothing behind", async () => {
  const silent: PageStore = { load: () => new Promise(() => {}), save: async () => {}, close: async () => {} };
  model.pages!.pool.forgetPrefixes();
  const prefixes = { store: silent, fingerprint: "this model", deadlineMilliseconds: 50 };
  const engine = createEngine(model, { prefixes });
  const given = submit(engine, { prompt });
  const short = submit(engine, { prompt: [1, 2, 3], maxTokens: 2 });
  await short.over;
  given.text.cancel();
  await engine.close();
  expect(engine.figures()).toMatchObject({ waiting: 0, running: 0, blocksUsed: 0 });
});

test("after failures in a row a store is left alone, then tried once, after longer and longer rests", () => {
  let now = 0;
  const heard: string[] = [];
  const breaker = new CircuitBreaker({ now: () => now, changed: (state) => void heard.push(state) });
  for (const failure of [1, 2, 3]) {
    expect(breaker.admit()).toBe(true);
    breaker.failed(failure);
  }
  expect([breaker.state, breaker.admit()]).toEqual(["open", false]);
  now = 1000;
  expect([breaker.admit(), breaker.admit(), breaker.state]).toEqual([true, false, "half-open"]);
  breaker.failed("again");
  now = 2999;
  expect(breaker.admit()).toBe(false);
  now = 3000;
  expect(breaker.admit()).toBe(true);
  breaker.succeeded();
  expect([breaker.state, breaker.admit()]).toEqual(["closed", true]);
  expect(heard).toEqual(["open", "half-open", "open", "half-open", "closed"]);
});

test("a store that cannot be written can be read", async () => {
  const blocks = nameBlocks("model", "salt", prompt, 16);
  const contents = blocks.map(() => new Uint8Array(64));
  const store = new MemoryStore();
  const lines: string[] = [];
  const checked = new CheckedStore(store, 64, { tell: (line) => void lines.push(line) });
  await checked.save(blocks.slice(0, 2), contents);
  store.save = () => Promise.reject(new Error("OOM command not allowed"));
  for (let time = 0; time < 5; time++) expect(await checked.save(blocks.slice(2), contents.slice(2))).toBe(false);
  expect((await checked.load(blocks)).length).toBe(2);
  expect(checked.figures).toMatchObject({
    errors: 3,
    dropped: 20,
    saved: 2,
    hits: 2,
    misses: 4,
    writing: "open",
    reading: "closed",
  });
  expect(lines).toEqual(["the store is not written for a while: Error: OOM command not allowed"]);
});

test("an answer that came while the thread was busy is not late", async () => {
  const blocks = nameBlocks("model", "salt", prompt, 16);
  const store = new MemoryStore();
  const checked = new CheckedStore(store, 64, { deadlineMilliseconds: 500 });
  await checked.save(
    blocks,
    blocks.map(() => new Uint8Array(64)),
  );
  const { values } = store;
  store.load = async (names) => {
    // An answer in three pieces.
    for (let piece = 0; piece < 3; piece++) await new Promise((resolve) => void setImmediate(resolve));
    return names.map((name) => values.get(name));
  };
  const loading = checked.load(blocks);
  const until = performance.now() + 600;
  while (performance.now() < until);
  expect((await loading).length).toBe(6);
  expect(() => new CheckedStore(store, 64, { deadlineMilliseconds: 0 })).toThrow("deadline of a store");
});

test("the store is read from the length on where that is quicker, and not where it never is", async () => {
  // A clock that only the store and the model move.
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const { pages } = model.pagedDecoder!;
  const measure = async (blockTime: number, roundTrip: number): Promise<readonly [number | undefined, string]> => {
    const store = new MemoryStore();
    store.load = async (names) => {
      now += roundTrip + blockTime * names.length;
      return names.map((name) => store.values.get(name));
    };
    const decoder = {
      pages,
      step: async ([{ tokens }]: readonly { readonly tokens: readonly number[] }[]) => {
        now += (10 * tokens.length) / pages.pool.blockSize;
        return undefined as never;
      },
    };
    let told = "";
    const prefixes = { store, fingerprint: "this model", tell: (line: string) => void (told = line) };
    return [(await withBreakEven(prefixes, decoder, 1000)).leastTokens, told];
  };
  expect(await measure(2, 50)).toEqual([
    7 * 16,
    "the store is read for 112 tokens or more: a block of 16 tokens takes 10.00 ms to compute, 2.00 ms to fetch after 50.00 ms",
  ]);
  expect((await measure(1, 0.5))[0]).toBe(16);
  expect(await measure(12, 1)).toEqual([Infinity, expect.stringMatching(/^the store is not read: /)]);
  const gone: PageStore = {
    load: async () => [],
    save: () => Promise.reject(new Error("away")),
    close: async () => {},
  };
  const prefixes = { store: gone, fingerprint: "this model" };
  expect((await withBreakEven(prefixes, model.pagedDecoder!, 1000)).leastTokens).toBe(undefined);
});

test("what a store takes is measured when it first answers, and again after it was away; each time it is told", async () => {
  let later = 0;
  const clock = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => clock() + later);
  const store = new MemoryStore();
  const [load, save] = [store.load.bind(store), store.save.bind(store)];
  const failing = (): Promise<never> => Promise.reject(new Error("away"));
  const turn = (isThere: boolean): unknown =>
    Object.assign(store, isThere ? { load, save } : { load: failing, save: failing });
  turn(false);
  const told: string[] = [];
  const tell = (line: string): unknown => told.push(line);
  const given = { store, fingerprint: "this model", tell };
  model.pages!.pool.forgetPrefixes();
  const engine = createEngine(model, { prefixes: await withBreakEven(given, model.pagedDecoder!, model.vocabulary) });
  const ask = async (): Promise<void> => {
    model.pages!.pool.forgetPrefixes();
    const heard = submit(engine, { prompt, maxTokens: 2 });
    await heard.over;
  };
  turn(true);
  await ask();
  const measured = expect.stringMatching(/^the store is (not read|read for \d+ tokens or more): /);
  await vi.waitFor(
    () => expect(told).toEqual([expect.stringMatching(/did not answer when the server began/), measured]),
    patient,
  );
  expect(engine.figures().store!.leastTokens % 16 || Infinity).toBe(Infinity);
  turn(false);
  for (let time = 0; time < 4; time++) await ask();
  expect(told.slice(2)).toContain("the store is not read for a while: Error: away");
  turn(true);
  later += 60_000;
  await ask();
  await vi.waitFor(() => expect(told.at(-1)).toEqual(measured), patient);
  await engine.close();
});
