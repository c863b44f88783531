// Values of a real Redis that were changed there, behind every name: bits turned, cut off, lengthened, another block's, another tenant's or another
// model's, however whole. None becomes a row, all are counted, and each text is the one that is made alone.
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { seededRandom } from "../../src/bench/serve/seeded-random.js";
import { Redis, redisServer } from "../support/redis.js";
import { Crowd, soak } from "./store-support.js";
import { submit } from "./engine-support.js";

/** Values that are refused in all, by workers that begin one after the other: each leaves the store alone when it has found out. */
const wanted = soak ? 10_000 : 40;
const seed = Number(process.env["INSITU_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

describe.skipIf(redisServer === undefined)(`a store that lies (seed ${seed})`, () => {
  let crowd: Crowd;
  let redis: Redis;
  beforeAll(async () => {
    // Room for all that is asked for at once.
    crowd = await Crowd.gather(soak ? 200 : 6, soak ? 4 : 2, soak ? 1400 : 80);
  });
  afterAll(() => crowd?.model.release());
  afterEach(() => redis?.kill());

  test(`${wanted} corrupted values, behind every name that is asked for`, async () => {
    redis = await Redis.start();
    await crowd.talk(redis.address);
    const entries = await redis.entries();
    const others = [...entries.values()];
    const random = seededRandom(seed);
    let refused = 0;
    while (refused < wanted) {
      const changed = Array.from(entries, ([key, value], at): [string, Buffer] => {
        const turned = Buffer.from(value);
        const bits = 1 + Math.floor(random() * 3);
        for (let bit = 0; bit < bits; bit++)
          turned[Math.floor(random() * value.length)] ^= 1 << Math.floor(random() * 8);
        if (turned.equals(value)) turned[at % value.length] ^= 1;
        const kinds = [
          turned,
          turned,
          turned,
          value.subarray(0, Math.floor(random() * value.length)),
          Buffer.concat([value, turned.subarray(0, 1 + Math.floor(random() * 40))]),
          others[(at + 1) % others.length],
        ];
        return [key, kinds[Math.floor(random() * kinds.length)]];
      });
      await redis.set(new Map(changed));
      const { store } = await crowd.talk(redis.address);
      expect([store.hits, store.refused > 0]).toEqual([0, true]);
      refused += store.refused;
    }
    if (soak) console.log(`${refused} corrupted values were refused`);
  });

  test("pages of another tenant, and of another model, under the names that are asked for", async () => {
    redis = await Redis.start();
    const prompt = crowd.prompts[0];
    const once = async (salt: string, fingerprint: string): Promise<readonly [number, number | undefined]> => {
      const engine = await crowd.engine(redis.address, undefined, undefined, fingerprint);
      const heard = submit(engine, { prompt, maxTokens: crowd.made, salt });
      await heard.over;
      await engine.close();
      expect(heard.tokens).toEqual(crowd.alone(0));
      return [engine.figures().store!.refused, heard.cachedTokens];
    };
    /** Names and values of one tenant and model, in the order of the text. */
    const pagesOf = async (salt: string, fingerprint: string): Promise<[string, Buffer][]> => {
      await redis.command("FLUSHALL");
      await once(salt, fingerprint);
      const [root, ...rest] = chained(await redis.entries());
      return [root, ...rest];
    };
    const own = await pagesOf("own", "this model");
    for (const theirs of [await pagesOf("another", "this model"), await pagesOf("own", "another model")]) {
      expect(theirs.length).toBe(own.length);
      await redis.command("FLUSHALL");
      await redis.set(new Map(own.map(([key], at) => [key, theirs[at][1]])));
      expect(await once("own", "this model")).toEqual([own.length, 0]);
    }
    await redis.set(new Map(own));
    expect(await once("own", "this model")).toEqual([0, 16 * own.length]);
  });
});

/** Entries in the order of their chain: each value has the name of the block before its own. */
function chained(entries: ReadonlyMap<string, Buffer>): [string, Buffer][] {
  const parentOf = (value: Buffer): string => value.subarray(20 + 4 * value.readUInt32LE(16)).toString("hex", 0, 32);
  const byParent = new Map(Array.from(entries, (entry) => [parentOf(entry[1]), entry]));
  const names = new Set(Array.from(entries.keys(), (key) => key.split(":").at(-1)!));
  const order: [string, Buffer][] = [];
  let next = [...byParent].find(([parent]) => !names.has(parent))?.[1];
  while (next !== undefined) {
    order.push(next);
    next = byParent.get(next[0].split(":").at(-1)!);
  }
  return order;
}
