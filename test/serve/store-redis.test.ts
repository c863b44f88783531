// Beginnings in a real Redis that is killed, hangs, comes back empty, is full or lies, while texts run: each text is the one that is made
// alone, nobody waits beyond the deadline, and the figures tell it.
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { LanguageModel } from "../../src/generate/causal-lm.js";
import { CausalLM } from "../../src/index.node.js";
import { openRedisPages } from "../../src/platform/redis-pages.js";
import type { Engine, StoreFigures } from "../../src/serve/engine.js";
import { createEngine } from "../../src/serve/running/create-engine.js";
import { embedded } from "../generate/support.js";
import { howToInstallRedis, Redis, redisServer } from "../support/redis.js";
import { submit, tokensAlone } from "./engine-support.js";

const soak = process.env["INSITU_SOAK"] !== undefined;
const crowd = soak ? 200 : 5;
const rounds = soak ? 4 : 1;
const made = soak ? 8 : 3;
/** How long the store may take where it must answer, however busy the machine is, and where it does not answer. */
const long = 30_000;
const short = 150;

if (redisServer === undefined) console.log(howToInstallRedis);

test("an address that is none is refused, without what it may have of a password", async () => {
  await expect(openRedisPages("http://user:password@host", 1)).rejects.toThrow(
    /^a store must be redis:.*got "http:\/\/…"$/,
  );
  await expect(openRedisPages("host:6379", 1)).rejects.toThrow("a store must be redis://host:port");
  await expect(openRedisPages("redis://host", 0)).rejects.toThrow("seconds");
});

describe.skipIf(redisServer === undefined)("a store that fails", () => {
  let model: LanguageModel;
  let redis: Redis;
  let alone: number[][];

  // Conversations that begin alike in fours.
  const prompts = Array.from({ length: crowd }, (_, text) =>
    Array.from(
      { length: 70 + (text % 4) * 9 },
      (_, at) => 300 + ((at * 37 + (text >> 2) * 11 + (at > 66 ? text : 0)) % 1000),
    ),
  );

  beforeAll(async () => {
    const pages = { cache: "paged", batchInvariant: true, context: 200, blocks: 80, keep: 0 } as const;
    model = await CausalLM.load(embedded, { ...pages, threads: 1 });
    alone = [];
    for (const prompt of prompts) alone.push(await tokensAlone(model, prompt, { maxTokens: made }));
  });
  afterAll(() => model?.release());
  afterEach(() => redis?.kill());

  /** An engine on pages that know nothing. */
  async function engineOf(deadlineMilliseconds = long): Promise<Engine> {
    model.pages!.pool.forgetPrefixes();
    const store = await openRedisPages(redis.address, 60);
    const prefixes = { store, fingerprint: "the embedded model", deadlineMilliseconds };
    return createEngine(model, { prefixes, mostWaiting: crowd });
  }

  /** All conversations at once; `fault` comes when the first one has begun. */
  async function talk(fault?: () => unknown, deadline = long): Promise<{ reused: number; store: StoreFigures }> {
    const engine = await engineOf(deadline);
    let faults: unknown;
    const onToken = (): undefined => void (faults ??= fault?.() ?? true);
    const heard = prompts.map((prompt) => submit(engine, { prompt, maxTokens: made, onToken }));
    await Promise.all(heard.map(({ over }) => over));
    await faults;
    await engine.close();
    expect(heard.map(({ tokens }) => tokens)).toEqual(alone);
    const { store, ...figures } = engine.figures();
    expect(figures).toMatchObject({ waiting: 0, running: 0, blocksUsed: 0 });
    return { reused: heard.reduce((sum, { cachedTokens }) => sum + cachedTokens!, 0), store: store! };
  }

  test("what one engine has read, the next one finds; each value lives as long as was said", async () => {
    redis = await Redis.start();
    const first = await talk();
    expect(first.store).toMatchObject({ hits: 0, errors: 0, refused: 0, dropped: 0, reading: "closed" });
    const [[key]] = await redis.entries();
    expect(await redis.secondsLeft(key)).toBeGreaterThan(0);
    expect(await redis.secondsLeft(key)).toBeLessThanOrEqual(60);
    const second = await talk();
    expect(second.store.hits).toBeGreaterThan(0);
    // In a crowd others take the blocks before a text has its turn.
    const whole = prompts.reduce((sum, { length }) => sum + 16 * Math.floor((length - 1) / 16), 0);
    expect(second.reused).toBeGreaterThanOrEqual(soak ? whole / 4 : whole);
  });

  test("killed while texts run, and not there at all", async () => {
    redis = await Redis.start();
    await talk();
    await talk(() => redis.kill());
    const { reused, store } = await talk();
    expect([store.hits, store.errors > 0, reused < 64 * crowd]).toEqual([0, true, true]);
    expect(store.reading).not.toBe("closed");
    await redis.start();
    expect((await talk()).store).toMatchObject({ hits: 0, errors: 0 });
    expect((await talk()).store.hits).toBeGreaterThan(0);
  });

  test("hanging while texts run, and from the beginning", async () => {
    redis = await Redis.start();
    await talk(() => redis.hang(), short);
    const { store } = await talk(undefined, short);
    expect([store.hits, store.saved, store.errors > 0, store.dropped > 0]).toEqual([0, 0, true, true]);
    redis.goOn();
    expect((await talk()).store).toMatchObject({ errors: 0, refused: 0 });
  });

  test("restarted empty: a connection that broke is made anew", async () => {
    redis = await Redis.start();
    const engine = await engineOf();
    const ask = async (prompt: readonly number[]): Promise<readonly number[]> => {
      model.pages!.pool.forgetPrefixes();
      const heard = submit(engine, { prompt, maxTokens: made });
      await heard.over;
      return heard.tokens;
    };
    expect(await ask(prompts[0])).toEqual(alone[0]);
    await redis.kill();
    await redis.start();
    for (const at of [0, 4, 4]) expect(await ask(prompts[at])).toEqual(alone[at]);
    await engine.close();
    expect(engine.figures().store).toMatchObject({ reading: "closed", writing: "closed" });
    expect(engine.figures().store!.hits).toBeGreaterThan(0);
    expect((await redis.entries()).size).toBeGreaterThan(0);
  });

  test("full: what it has is read, what it refuses is dropped", async () => {
    redis = await Redis.start("--maxmemory", "2mb", "--maxmemory-policy", "noeviction");
    const { store } = await talk();
    expect([store.errors > 0, store.dropped > 0]).toEqual([true, true]);
    expect((await talk()).store).toMatchObject({ refused: 0, reading: "closed" });
  });

  test("a corrupted value behind every name: none becomes a row", async () => {
    redis = await Redis.start();
    await talk();
    const entries = await redis.entries();
    for (let round = 0; round < rounds; round++) {
      const values = [...entries.values()];
      const changed = Array.from(entries, ([key, value], at): [string, Buffer] => {
        const turned = Buffer.from(value);
        const bit = (at * 7919 + round * 104_729) % (8 * value.length);
        turned[bit >> 3] ^= 1 << (bit & 7);
        const kinds = [turned, turned, value.subarray(0, bit >> 3), values[(at + 1) % values.length]];
        return [key, kinds[(at + round) % kinds.length]];
      });
      await redis.set(new Map(changed));
      const { reused, store } = await talk();
      expect([store.hits, store.refused > 0, reused < 64 * crowd]).toEqual([0, true, true]);
    }
  });

  test("two salts with the same prompt share nothing", async () => {
    redis = await Redis.start();
    const cached: (number | undefined)[] = [];
    for (const salt of ["a", "b", "a"]) {
      const engine = await engineOf();
      const heard = submit(engine, { prompt: prompts[0], maxTokens: made, salt });
      await heard.over;
      await engine.close();
      expect(heard.tokens).toEqual(alone[0]);
      cached.push(heard.cachedTokens);
    }
    expect(cached).toEqual([0, 0, 64]);
  });
});
