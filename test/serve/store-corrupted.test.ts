// Values of a real Redis that were changed there, behind every name: bits turned, cut off, lengthened, another block's, another tenant's or another
// model's, however whole. None becomes a row, all are counted, and each text is the one that is made alone.
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { seededRandom } from "../../tools/bench/serve/seeded-random.js";
import type { NamedBlock } from "../../packages/serve/running/block-names.js";
import { openRedisPages } from "../../packages/stores/redis-pages.js";
import { CheckedStore } from "../../packages/serve/running/checked-store.js";
import { Redis, redisServer } from "../support/redis.js";
import { Crowd, long } from "./store-support.js";
import { soak } from "../support/soak.js";
import { submit } from "./engine-support.js";

/** Values that are changed and asked for. */
const wanted = soak ? 10_000 : 60;
/** Times that all conversations meet such values. */
const rounds = soak ? 3 : 1;
const seed = Number(process.env["INSITU_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

describe.skipIf(redisServer === undefined)(`a store that lies (seed ${seed})`, () => {
  let crowd: Crowd;
  let redis: Redis;
  beforeAll(async () => {
    crowd = await Crowd.gather(soak ? 60 : 4, soak ? 4 : 2);
  });
  afterAll(() => crowd?.model.release());
  afterEach(() => redis?.kill());

  /** Every value changed somehow. */
  function corrupted(entries: ReadonlyMap<string, Buffer>, random: () => number): Map<string, Buffer> {
    const others = [...entries.values()];
    const below = (end: number): number => Math.floor(random() * end);
    const one = (value: Buffer, at: number): Buffer => {
      const turned = Buffer.from(value);
      const first = below(value.length);
      turned[first] ^= 1 << below(8);
      for (let more = below(3); more > 0; more--) turned[(first + 1 + below(value.length - 1)) % value.length] ^= 1;
      const longer = Buffer.concat([value, turned.subarray(0, 1 + below(40))]);
      const kinds = [turned, turned, turned, value.subarray(0, first), longer, others[(at + 1) % others.length]];
      return kinds[below(kinds.length)];
    };
    return new Map(Array.from(entries, ([key, value], at) => [key, one(value, at)]));
  }

  test(`${wanted} corrupted values are refused, and no conversation hears of them`, async () => {
    redis = await Redis.start();
    await crowd.talk(redis.address);
    const entries = await redis.entries();
    const random = seededRandom(seed);
    const { blockBytes } = crowd.model.pages!;
    const blocks = Array.from(entries, ([key, value]) => blockOf(key, value));
    let refused = 0;
    for (let round = 0; refused < wanted; round++) {
      const store = await openRedisPages(redis.address, 60);
      const checked = new CheckedStore(store, blockBytes, { deadlineMilliseconds: long });
      const [first] = blocks;
      expect((await checked.load([first])).length).toBe(1);
      await redis.set(corrupted(entries, random));
      expect(await checked.load(blocks)).toEqual([]);
      expect(checked.figures).toMatchObject({ refused: blocks.length, errors: 0 });
      refused += checked.figures.refused;
      await checked.close();
      if (round < rounds) {
        const { store: figures } = await crowd.talk(redis.address);
        expect([figures.hits, figures.refused > 0]).toEqual([0, true]);
      }
      await redis.set(entries);
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
      return chained(await redis.entries());
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

/** A block as its value tells it. */
function blockOf(key: string, value: Buffer): NamedBlock {
  const count = value.readUInt32LE(16);
  const tokens = Array.from({ length: count }, (_, at) => value.readUInt32LE(20 + 4 * at));
  const parent = value.toString("hex", 20 + 4 * count, 52 + 4 * count);
  return { name: key.split(":").at(-1)!, parent, tokens };
}

/** Entries in the order of their chain: each value has the name of the block before its own. */
function chained(entries: ReadonlyMap<string, Buffer>): [string, Buffer][] {
  const byParent = new Map(Array.from(entries, (entry) => [blockOf(...entry).parent, entry]));
  const names = new Set(Array.from(entries, (entry) => blockOf(...entry).name));
  const order: [string, Buffer][] = [];
  let next = [...byParent].find(([parent]) => !names.has(parent))?.[1];
  while (next !== undefined) {
    order.push(next);
    next = byParent.get(blockOf(...next).name);
  }
  return order;
}
