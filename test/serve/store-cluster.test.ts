// Beginnings in a real Redis Cluster of three servers: keys are spread over all of them, one that is killed makes texts go on by computing, and
// one that takes its place is found.
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { readRedisAddress } from "../../packages/stores/redis-address.js";
import { openRedisPages } from "../../packages/stores/redis-pages.js";
import { RedisCluster, redisServer } from "../support/redis.js";
import { Crowd, short } from "./store-support.js";
import { soak } from "../support/soak.js";
import { submit } from "./engine-support.js";

test("the address of a cluster names some of its servers, with what all of them ask for", async () => {
  expect(readRedisAddress("rediss-cluster://me:p%40ss@one:7000,[::1]:7001")).toEqual({
    urls: ["rediss://me:p%40ss@one:7000", "rediss://me:p%40ss@[::1]:7001"],
    isCluster: true,
    username: "me",
    password: "p@ss",
    tls: true,
  });
  for (const wrong of ["redis-cluster://", "redis-cluster://a,,b", "redis-cluster://me:secret@a:port"])
    expect(() => readRedisAddress(wrong)).toThrow(/^a store must be .*, got "redis-cluster:\/\/…"$/);
  expect(() => readRedisAddress("redis-cluster://a:1/3")).toThrow("a cluster has one database");
  expect(() => readRedisAddress("me:secret@host")).toThrow(/got "…"$/);
});

describe.skipIf(redisServer === undefined)("a cluster", () => {
  let crowd: Crowd;
  let cluster: RedisCluster;
  beforeAll(async () => {
    crowd = await Crowd.gather(soak ? 200 : 4, soak ? 8 : 3);
  });
  afterAll(() => crowd?.model.release());
  afterEach(() => cluster?.kill());

  test("keys lie on all servers; one is killed while texts run", async () => {
    cluster = await RedisCluster.start(3);
    expect((await crowd.talk(cluster.address)).store).toMatchObject({ errors: 0, dropped: 0, refused: 0 });
    const kept = await Promise.all(cluster.nodes.map(async (node) => (await node.entries()).size));
    expect(kept.filter((count) => count > 0).length).toBe(3);
    const found = await crowd.talk(cluster.address);
    expect(found.store).toMatchObject({ errors: 0, refused: 0, reading: "closed" });
    expect(found.reused).toBeGreaterThanOrEqual(soak ? crowd.whole / 4 : crowd.whole);
    // One server is taken for the only one.
    const [first] = cluster.nodes;
    const alone = await openRedisPages(first.address, 60);
    await expect(alone.load(["a", "b", "c"], new AbortController().signal)).rejects.toThrow("give redis-cluster://");
    await alone.close();
    const killed = cluster.nodes[2];
    await crowd.talk(cluster.address, () => killed.kill());
    const gone = await crowd.talk(cluster.address);
    expect([gone.store.errors > 0, gone.store.reading !== "closed" || gone.store.writing !== "closed"]).toEqual([
      true,
      true,
    ]);
    expect(gone.told.length).toBeGreaterThan(0);
    cluster.nodes[0].hang();
    expect((await crowd.talk(cluster.address, undefined, short)).store.errors).toBeGreaterThan(0);
    cluster.nodes[0].goOn();
  });

  test.skipIf(!soak)("a server that takes the place of another is found, and what it had copied is read", async () => {
    cluster = await RedisCluster.start(3, 3);
    await crowd.talk(cluster.address);
    const engine = await crowd.engine(cluster.address);
    const ask = async (which: number): Promise<number | undefined> => {
      crowd.model.pages!.pool.forgetPrefixes();
      const heard = submit(engine, { prompt: crowd.prompts[which], maxTokens: crowd.made });
      await heard.over;
      expect(heard.tokens).toEqual(crowd.alone(which));
      return heard.cachedTokens;
    };
    expect(await ask(0)).toBe(64);
    await cluster.nodes[1].kill();
    const living = cluster.nodes.filter((node) => node !== cluster.nodes[1]);
    for (let which = 1; which < 9; which++) await ask(which);
    await cluster.untilInfo(/cluster_state:(\w+)/, "ok", living);
    await expect.poll(() => ask(0)).toBe(64);
    await engine.close();
  });
});
