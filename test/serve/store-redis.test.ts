// Beginnings in a real Redis that is killed, hangs, is slow, comes back empty, is full or lies, while conversations run: each text is the one that
// is made alone, nobody waits beyond the deadline, and the figures tell it.
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { seededRandom } from "../../tools/bench/serve/seeded-random.js";
import { openRedisPages } from "../../packages/stores/redis-pages.js";
import { howToInstallRedis, Redis, redisServer } from "../support/redis.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { Crowd, long, secondsToLive, short } from "./store-support.js";
import { soak } from "../support/soak.js";
import { submit } from "./engine-support.js";

const size = soak ? 200 : 4;
const seed = Number(process.env["INSITU_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
if (redisServer === undefined) console.log(howToInstallRedis);

test("an address that is none is refused, without what it may have of a password", async () => {
  await expect(openRedisPages("http://user:password@host", 1)).rejects.toThrow(
    /^a store must be redis:.*got "http:\/\/…"$/,
  );
  await expect(openRedisPages("host:6379", 1)).rejects.toThrow("a store must be redis://host:port");
  await expect(openRedisPages("redis://host", 0)).rejects.toThrow("seconds");
});

describe.skipIf(redisServer === undefined)(`a store that fails (seed ${seed})`, () => {
  let crowd: Crowd;
  let redis: Redis;
  let proxy: TcpProxy | undefined;
  beforeAll(async () => {
    crowd = await Crowd.gather(size, soak ? 8 : 2);
  });
  afterAll(() => crowd?.model.release());
  afterEach(async () => {
    proxy?.close();
    await redis?.kill();
  });

  test("what one engine has read, the next one finds; each value lives as long as was said", async () => {
    redis = await Redis.start();
    const first = await crowd.talk(redis.address);
    expect(first.store).toMatchObject({ errors: 0, refused: 0, dropped: 0, reading: "closed" });
    const [[key]] = await redis.entries();
    expect(await redis.secondsLeft(key)).toBeGreaterThan(0);
    expect(await redis.secondsLeft(key)).toBeLessThanOrEqual(secondsToLive);
    const second = await crowd.talk(redis.address);
    expect(second.store.hits).toBeGreaterThan(0);
    // In a crowd others take the blocks before a text has its turn.
    expect(second.reused).toBeGreaterThanOrEqual(soak ? crowd.whole / 4 : crowd.whole);
  });

  test("killed while texts run, and not there at all", async () => {
    redis = await Redis.start();
    await crowd.talk(redis.address, () => redis.kill());
    const { store, told } = await crowd.talk(redis.address);
    expect([store.hits, store.errors > 0]).toEqual([0, true]);
    expect(store.reading).not.toBe("closed");
    expect(told[0]).toMatch(/^the store is not (read|written) for a while: .*ECONNREFUSED/);
    await redis.start();
    expect((await crowd.talk(redis.address)).store).toMatchObject({ errors: 0 });
    expect((await crowd.talk(redis.address)).store.hits).toBeGreaterThan(0);
  });

  test("hanging while texts run, and from the beginning", async () => {
    redis = await Redis.start();
    await crowd.talk(redis.address, () => redis.hang(), short);
    const { store, told } = await crowd.talk(redis.address, undefined, short);
    expect([store.hits, store.saved, store.errors > 0, store.dropped > 0]).toEqual([0, 0, true, true]);
    expect(told[0]).toMatch(/^the store is not (read|written) for a while: Error: it did not answer within 150 ms/);
    redis.goOn();
    expect((await crowd.talk(redis.address)).store).toMatchObject({ errors: 0, refused: 0 });
  });

  test("slow: late answers are waited for until the deadline, and not beyond", async () => {
    redis = await Redis.start();
    await crowd.talk(redis.address);
    proxy = await TcpProxy.start(redis.port, { delay: 5 });
    expect((await crowd.talk(proxy.address)).store).toMatchObject({ errors: 0, refused: 0, reading: "closed" });
    proxy.close();
    // Answers that begin in time and do not end.
    proxy = await TcpProxy.start(redis.port, { drop: 100 });
    const { store, told } = await crowd.talk(proxy.address, undefined, short);
    expect([store.hits, store.errors > 0]).toEqual([0, true]);
    expect(told[0]).toMatch(/within 150 ms/);
  });

  test("restarted empty: a connection that broke is made anew", async () => {
    redis = await Redis.start();
    const engine = await crowd.engine(redis.address);
    const ask = async (which: number): Promise<void> => {
      crowd.model.pages!.pool.forgetPrefixes();
      const heard = submit(engine, { prompt: crowd.prompts[which], maxTokens: crowd.made });
      await heard.over;
      expect(heard.tokens).toEqual(crowd.alone(which));
    };
    await ask(0);
    await redis.kill();
    await redis.start();
    for (const which of [0, 3, 3]) await ask(which);
    await engine.close();
    expect(engine.figures().store).toMatchObject({ reading: "closed", writing: "closed" });
    expect(engine.figures().store!.hits).toBeGreaterThan(0);
    expect((await redis.entries()).size).toBeGreaterThan(0);
    // The same while all of them talk.
    await crowd.talk(redis.address, async () => {
      await redis.kill();
      await redis.start();
    });
    expect((await crowd.talk(redis.address)).store).toMatchObject({ errors: 0, refused: 0 });
  });

  test("full: what it has is read, what it refuses is dropped", async () => {
    redis = await Redis.start("--maxmemory", "2mb", "--maxmemory-policy", "noeviction");
    const { store, told } = await crowd.talk(redis.address);
    expect([store.errors > 0, store.dropped > 0]).toEqual([true, true]);
    // A few conversations write too seldom to find out three times in a row.
    for (const line of told)
      expect(line).toMatch(/^the store is not written for a while: .*OOM|^the store is written again$/);
    if (soak) expect(told.length).toBeGreaterThan(0);
    const again = await crowd.talk(redis.address);
    expect(again.store).toMatchObject({ refused: 0, reading: "closed" });
    // What a crowd writes at a time leaves no room for any of it.
    if (!soak) expect(again.store.hits).toBeGreaterThan(0);
  });

  test("answers with bits turned on their way, in values and in what is around them", async () => {
    redis = await Redis.start();
    await crowd.talk(redis.address);
    for (let round = 0; round < (soak ? 20 : 2); round++) {
      const random = seededRandom(seed + round);
      const damage = (bytes: Buffer): void => {
        // Every other round close to the beginning, where lengths and kinds of answers are.
        const reach = round % 2 === 0 ? Math.min(30, bytes.length) : bytes.length;
        for (let count = 0; count < 1 + bytes.length / 20_000; count++)
          bytes[Math.floor(random() * reach)] ^= 1 << Math.floor(random() * 8);
      };
      const through = await TcpProxy.start(redis.port, { damage });
      const { store } = await crowd.talk(through.address, undefined, short);
      through.close();
      expect(store.refused + store.errors).toBeGreaterThan(0);
    }
    expect((await crowd.talk(redis.address)).store).toMatchObject({ errors: 0, reading: "closed" });
  });

  test("two salts with the same prompt share nothing", async () => {
    redis = await Redis.start();
    const cached: (number | undefined)[] = [];
    for (const salt of ["a", "b", "a"]) {
      const engine = await crowd.engine(redis.address, long);
      const heard = submit(engine, { prompt: crowd.prompts[0], maxTokens: crowd.made, salt });
      await heard.over;
      await engine.close();
      expect(heard.tokens).toEqual(crowd.alone(0));
      cached.push(heard.cachedTokens);
    }
    expect(cached).toEqual([0, 0, 64]);
  });
});
