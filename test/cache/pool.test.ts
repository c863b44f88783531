// The block pool: random operations against a simple model with real bytes, prefixes held once, errors that leave everything as it was.
import { describe, expect, test } from "vitest";
import { BlockPool } from "../../src/cache/block-pool.js";
import { runPool } from "./pool-model.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 20260);
const text = (count: number, from = 0): number[] => Array.from({ length: count }, (_, at) => (from + at * 7) % 997);

describe("random operations agree with the model", () => {
  const hashes = [
    ["its own hash", undefined],
    ["a hash that is always 0", () => 0],
    ["a hash of the last token only", (_: number, tokens: readonly number[]) => tokens.at(-1)!],
  ] as const;
  test.each(hashes)("with %s", (name, hash) => {
    const shapes = [
      { blocks: 24, blockSize: 4 },
      { blocks: 7, blockSize: 1 },
      { blocks: 40, blockSize: 3 },
      { blocks: 12, blockSize: 16 },
    ];
    let [operations, copies, shared, refused] = [0, 0, 0, 0];
    shapes.forEach((shape, at) => {
      const count = soak ? 25_000 : 700;
      const run = runPool(seed + at, count, { ...shape, ...(hash === undefined ? {} : { hash }) });
      operations += count;
      copies += run.copies;
      shared += run.sharedRows;
      refused += run.refused;
    });
    console.log(
      `pool with ${name}, seed ${seed}: ${operations} operations, ${copies} copies on write, ${shared} rows shared, ${refused} refused`,
    );
    expect(Math.min(copies, shared, refused)).toBeGreaterThan(20);
  });
});

describe("equal beginnings", () => {
  test("two conversations with a common prefix of 1,000 tokens hold it once", () => {
    const pool = new BlockPool({ blocks: 256, blockSize: 16 });
    const prefix = text(1000);
    const [one, two] = [pool.add("one"), pool.add("two")];
    one.append([...prefix, ...text(40, 500)]);
    one.commit();
    const other = [...prefix, ...text(40, 900)];
    expect(two.share(other)).toBe(992);
    two.append(other.slice(992));
    two.commit();
    // 62 full blocks of the prefix once, and for each its own last 48 rows: 3 blocks.
    expect(pool.statistics).toMatchObject({ used: 62 + 3 + 3, shared: 62, copies: 0 });
    expect(two.table.slice(0, 62)).toEqual(one.table.slice(0, 62));
  });

  test("so do two that are read at the same time", () => {
    const pool = new BlockPool({ blocks: 256, blockSize: 16 });
    const [one, two] = [pool.add("one"), pool.add("two")];
    pool.append([
      { sequence: one, tokens: text(1000) },
      { sequence: two, tokens: text(1000) },
    ]);
    expect(pool.statistics).toMatchObject({ used: 126, shared: 0 });
    one.commit();
    two.commit();
    expect(pool.statistics).toMatchObject({ used: 64, shared: 62 });
  });

  test("of another salt nothing is shared, whatever the hash is", () => {
    for (const hash of [undefined, () => 0]) {
      const pool = new BlockPool({ blocks: 64, blockSize: 4, ...(hash === undefined ? {} : { hash }) });
      const tokens = text(20);
      for (const salt of ["a", "b", ""]) {
        const sequence = pool.add(undefined, salt);
        expect(sequence.share(tokens)).toBe(0);
        sequence.append(tokens);
        sequence.commit();
        expect(pool.add(undefined, salt).share(tokens)).toBe(20);
        expect(sequence.fork().salt).toBe(salt);
      }
      expect(new Set(pool.sequences.flatMap(({ table }) => table)).size).toBe(15);
    }
  });

  test("blocks that the same tokens would fill have the same numbers, and no others", () => {
    const pool = new BlockPool({ blocks: 64, blockSize: 4 });
    const [one, two, other] = [pool.add(), pool.add(), pool.add(undefined, "salt")];
    const tokens = text(22);
    const whole = one.blockHashes(tokens, 22);
    expect([whole.length, new Set(whole).size]).toEqual([5, 5]);
    two.append(tokens.slice(0, 6));
    two.commit();
    // The second block is begun already: only those behind it are wholly new.
    expect(two.blockHashes(tokens, 22)).toEqual(whole.slice(2));
    expect(one.blockHashes(tokens, 11)).toEqual(whole.slice(0, 2));
    expect(one.blockHashes([1, ...tokens.slice(1)], 22).filter((hash) => whole.includes(hash))).toEqual([]);
    expect(other.blockHashes(tokens, 22).filter((hash) => whole.includes(hash))).toEqual([]);
  });

  test("a fork shares everything, and writes only its own last block anew", () => {
    const copied: number[][] = [];
    const pool = new BlockPool({ blocks: 16, blockSize: 8, copy: (...call) => copied.push(call) });
    const one = pool.add("one");
    one.append(text(20));
    one.commit();
    const two = one.fork("two");
    expect(pool.statistics).toMatchObject({ used: 3, shared: 3 });
    two.append([1]);
    expect(copied).toEqual([[one.table[2], two.table[2], 4]]);
    one.append([2]);
    expect(copied).toHaveLength(1);
    expect(pool.statistics).toMatchObject({ used: 4, shared: 2 });
  });

  test("what nobody uses is found again until the room is needed, the longest unused first", () => {
    const pool = new BlockPool({ blocks: 4, blockSize: 4 });
    for (const from of [0, 500]) {
      const sequence = pool.add();
      sequence.append(text(8, from));
      sequence.commit();
      sequence.release();
    }
    expect(pool.statistics).toMatchObject({ used: 0, kept: 4, free: 0 });
    const again = pool.add("again");
    expect(again.share(text(8))).toBe(8);
    again.release();
    const large = pool.add("large");
    large.append(text(8, 200));
    const [old, recent] = [pool.add("old"), pool.add("recent")];
    expect([old.share(text(8, 500)), recent.share(text(8))]).toEqual([0, 8]);
  });

  test("rows that were written over are not found any more", () => {
    const pool = new BlockPool({ blocks: 8, blockSize: 4 });
    const one = pool.add("one");
    one.append(text(8));
    one.commit();
    one.truncate(6);
    one.append([990, 991]);
    one.commit();
    expect(pool.add().share(text(8))).toBe(4);
    expect(pool.add().share([...text(6), 990, 991])).toBe(8);
  });
});

describe("bad input", () => {
  const filled = (): BlockPool => {
    const pool = new BlockPool({ blocks: 6, blockSize: 4 });
    const one = pool.add("one");
    one.append(text(14));
    one.commit();
    one.fork("two");
    return pool;
  };

  test("a full pool names who holds the blocks, and nothing changes", () => {
    const pool = filled();
    const [one, two] = pool.sequences;
    const three = pool.add("three");
    const before = JSON.stringify([pool.describe(), pool.statistics]);
    expect(() =>
      pool.append([
        { sequence: one, tokens: [1] },
        { sequence: three, tokens: text(8) },
      ]),
    ).toThrow(
      'the pool of 6 blocks of 4 rows is full: 1 rows of "one", 8 rows of "three" need 3 more, 2 are left; "one" holds 4 (4 shared), "two" holds 4 (4 shared); release or truncate a sequence, or make the pool larger',
    );
    expect(() => two.append(text(20))).toThrow(/"two" needs? /);
    expect(JSON.stringify([pool.describe(), pool.statistics])).toBe(before);
  });

  test("a copy that fails leaves the sequences as they were", () => {
    const pool = new BlockPool({
      blocks: 6,
      blockSize: 4,
      copy: () => {
        throw new Error("no device");
      },
    });
    const [one, free] = [pool.add("one"), pool.add("free")];
    one.append(text(6));
    const two = one.fork("two");
    const before = JSON.stringify(pool.describe());
    expect(() =>
      pool.append([
        { sequence: free, tokens: [1, 2] },
        { sequence: two, tokens: [3] },
      ]),
    ).toThrow("no device");
    expect([free.length, two.length, two.table]).toEqual([0, 6, one.table]);
    expect(JSON.stringify(pool.describe())).toBe(before);
  });

  test("released sequences", () => {
    const pool = filled();
    const [one] = pool.sequences;
    one.release();
    one.release();
    expect(() => one.fork("three")).toThrow('fork: sequence "one" was released and holds no block any more');
    expect(() => one.append([1])).toThrow('append: sequence "one" was released');
    expect(() => one.truncate(0)).toThrow('truncate: sequence "one" was released');
    expect(pool.sequences.map(({ name }) => name)).toEqual(["two"]);
  });

  test("tables", () => {
    const pool = filled();
    const [one] = pool.sequences;
    pool.checkTable(one.table, 14, "one");
    expect(() => pool.checkTable([0, 6], 8, 'the table of "x"')).toThrow(
      'the table of "x": entry 1 is block 6, which lies outside the pool of 6 blocks',
    );
    expect(() => pool.checkTable([0, -1], 5, "x")).toThrow("entry 1 is block -1, which lies outside");
    expect(() => pool.checkTable([0, 5], 8, "x")).toThrow("x: entry 1 is block 5, which was freed");
    expect(() => pool.checkTable([0], 5, "x")).toThrow("x: a length of 5 rows needs 2 blocks of 4, the table has 1");
    pool.checkTable([0, 77], 4, "what is not read is not checked");
  });

  test("arguments", () => {
    expect(() => new BlockPool({ blocks: 0, blockSize: 4 })).toThrow("a pool's blocks must be a whole number above 0");
    const pool = filled();
    const [one] = pool.sequences;
    expect(() => pool.add("one")).toThrow('the pool has a sequence "one" already');
    expect(() => one.truncate(15)).toThrow('sequence "one" has 14 rows and cannot be cut to 15');
    expect(() => one.overwrite(10, 5)).toThrow('sequence "one" has 14 rows, of which 10 to 14 cannot be written again');
    expect(() => one.dropColumns([4])).toThrow('sequence "one" has 4 blocks and no block 4 to give back');
    expect(() => one.share([5])).toThrow("its 14 rows are not the beginning of the 1 tokens given");
    expect(() => pool.append([0, 1].map(() => ({ sequence: one, tokens: 1 })))).toThrow('"one" is named twice');
    expect(() => new BlockPool({ blocks: 1, blockSize: 1 }).append([{ sequence: one, tokens: 1 }])).toThrow(
      "belongs to another pool",
    );
  });
});
