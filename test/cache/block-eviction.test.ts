// What an eviction promises, whatever the policy: all rows that it names stay, fewer others than a block has, and the logits afterwards are
// those of a long cache in which a mask shows each query what was there. Policies are written out a second time here.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EvictingState } from "../../packages/eviction/evicting-state.js";
import { type EvictionPolicy, heavyHitters, recentWindow, rowsInBlocks } from "../../src/cache/eviction.js";
import { PagedState } from "../../src/cache/paged-state.js";
import { PerHeadState } from "../../packages/eviction/per-head-state.js";
import type { Sequence } from "../../src/cache/sequence.js";
import { smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { decoderBytes, distance, pagedSession } from "./support.js";
import { maskedLogits } from "./masked.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 4711);
const bytes = decoderBytes({}, { ...smallSizes, positions: 4096 });

/** A policy, and the positions that it must keep, told without it. */
interface Told {
  readonly policy: EvictionPolicy;
  readonly keeps: (positions: readonly number[], scores: readonly number[], budget: number) => ReadonlySet<number>;
}

const windowed = (sinks: number): Told => ({
  policy: recentWindow({ sinks }),
  keeps: (positions, _, budget) => {
    const first = positions.filter((position) => position < sinks);
    const rest = positions.filter((position) => position >= sinks);
    return new Set([...first, ...rest.reverse().slice(0, budget - first.length)]);
  },
});

const hitting = (sinks: number, recent: number): Told => ({
  policy: heavyHitters({ sinks, recent }),
  keeps: (positions, scores, budget) => {
    const kept = new Set(positions.filter((position) => position < sinks));
    const latest = Math.min(Math.ceil(budget * recent), budget - kept.size);
    for (const position of positions.toReversed().slice(0, latest)) kept.add(position);
    while (kept.size < Math.min(budget, positions.length)) {
      let best = -1;
      for (let row = 0; row < positions.length; row++)
        if (!kept.has(positions[row]) && (best < 0 || scores[row] >= scores[best])) best = row;
      kept.add(positions[best]);
    }
    return kept;
  },
});

/** Somebody's own: every row by a coin, also the newest may go. */
const coins = (random: () => number): Told => {
  let rows: number[] = [];
  return {
    policy: ({ positions, budget }) =>
      (rows = positions.flatMap((_, row) => (random() < 0.6 ? [row] : [])).slice(0, budget)),
    keeps: (positions) => new Set(rows.map((row) => positions[row])),
  };
};

const positionsOf = (sequence: Sequence): number[] =>
  Array.from({ length: sequence.length }, (_, row) => sequence.positionOf(row));

describe("rows in whole blocks", () => {
  test("every choice of few rows: all stay, fewer others than a block has, as many blocks go as can", () => {
    let [cases, still] = [0, 0];
    for (const blockSize of [1, 2, 3, 4, 5])
      for (let length = 1; length <= (soak ? 13 : 9); length++)
        for (let bits = 0; bits < 2 ** length; bits++) {
          const chosen = Array.from({ length }, (_, row) => row).filter((row) => (bits >> row) & 1);
          const rows = rowsInBlocks(chosen, length, blockSize);
          const what = `[${chosen.join(",")}] of ${length} in blocks of ${blockSize}: [${rows.join(",")}]`;
          if (rows.some((row, at) => row <= (rows[at - 1] ?? -1) || row >= length))
            expect.fail(`${what}: not in order`);
          if (chosen.some((row) => !rows.includes(row))) expect.fail(`${what}: a chosen row is gone`);
          if (rows.length - chosen.length >= blockSize) expect.fail(`${what}: a block too many stays`);
          const blocks = Math.ceil(rows.length / blockSize);
          const most = Math.ceil(length / blockSize) - Math.floor((length - chosen.length) / blockSize);
          if (blocks > most) expect.fail(`${what}: ${blocks} blocks, ${most} are enough`);
          // Where the blocks with chosen rows have few others, they stay whole, and nothing moves.
          const columns = new Set(chosen.map((row) => Math.floor(row / blockSize)));
          const inColumns = Array.from({ length }, (_, row) => row).filter((row) =>
            columns.has(Math.floor(row / blockSize)),
          );
          if (inColumns.length - chosen.length < blockSize) {
            expect(rows, what).toEqual(inColumns);
            still++;
          }
          cases++;
        }
    console.log(`rows in whole blocks: ${cases} choices, of which ${still} move nothing`);
    expect(still).toBeGreaterThan(0);
  });
});

describe("on pages", () => {
  let session: InferenceSession;
  beforeAll(async () => {
    session = await pagedSession(bytes, { scores: true });
  });
  afterAll(() => session.release());

  test("112 rows in blocks of 16, four sinks, 20 asked for: the sinks and the latest 16 stay, and nothing moves", async () => {
    const pages = new PagedState(session, { blocks: 16, blockSize: 16 });
    const sequence = pages.add();
    await pages.step([{ sequence, tokens: Array.from({ length: 112 }, (_, at) => at) }]);
    const evicted = await pages.evict(sequence, recentWindow({ sinks: 4 }), { budget: 20 });
    const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);
    expect(positionsOf(sequence)).toEqual([...range(0, 16), ...range(96, 112)]);
    expect(evicted).toEqual({ kept: 32, spared: 12, moved: 0, blocks: 5 });
    expect(sequence.position).toBe(112);
    // Within its budget it stays as it is.
    expect(await pages.evict(sequence, recentWindow(), { budget: 32 })).toEqual({
      kept: 32,
      spared: 0,
      moved: 0,
      blocks: 0,
    });
    // A row over it, and no block's worth of rows to give back: all stay, and that is said.
    expect(await pages.evict(sequence, recentWindow(), { budget: 31 })).toEqual({
      kept: 32,
      spared: 1,
      moved: 0,
      blocks: 0,
    });
    expect(await pages.evict(sequence, recentWindow(), { budget: 31, exact: true })).toMatchObject({
      kept: 31,
      spared: 0,
    });
    pages.release();
  });

  test("sinks and the latest rows stay, at every length and budget", async () => {
    let [cases, moved] = [0, 0];
    for (const blockSize of [1, 3, 4, 7, 16])
      for (const sinks of [0, 1, 4, 9]) {
        const pages = new PagedState(session, { blocks: 64, blockSize });
        for (let length = 2; length <= (soak ? 60 : 40); length += soak ? 1 : 13) {
          if (Math.ceil(length / blockSize) * 2 > 64) continue;
          const root = pages.add();
          await pages.step([{ sequence: root, tokens: Array.from({ length }, (_, at) => at % 128) }]);
          for (let budget = Math.max(1, sinks); budget <= length + 1; budget += soak ? 1 : 4) {
            const sequence = root.fork();
            const what = `${length} rows, blocks of ${blockSize}, ${sinks} sinks, budget ${budget}`;
            const evicted = await pages.evict(sequence, recentWindow({ sinks }), { budget });
            const kept = positionsOf(sequence);
            const wanted = windowed(sinks).keeps(positionsOf(root), [], budget);
            expect(kept, what).toEqual(expect.arrayContaining([...wanted]));
            expect(kept.length, what).toBeLessThan(wanted.size + blockSize);
            expect(evicted, what).toMatchObject({ kept: kept.length, spared: kept.length - wanted.size });
            expect(sequence.table.length, what).toBe(Math.ceil(kept.length / blockSize));
            moved = Math.max(moved, evicted.moved / blockSize);
            sequence.release();
            cases++;
          }
          root.release();
        }
        pages.release();
      }
    console.log(`window and sinks: ${cases} evictions; fewer rows moved than a block has`);
    expect(moved).toBeLessThan(1);
  });

  test("many texts, forks and shared beginnings, evicted while they go on", async () => {
    const runs = soak ? 60 : 3;
    let [evictions, moved, forks, shared, worst] = [0, 0, 0, 0, 0];
    for (let run = 0; run < runs; run++) {
      const result = await readAndEvict(session, seed + run, soak ? 120 : 60);
      evictions += result.evictions;
      moved += result.moved;
      forks += result.forks;
      shared += result.shared;
      worst = Math.max(worst, result.worst);
    }
    console.log(
      `evicted while decoding, seed ${seed}: ${runs} runs, ${evictions} evictions, ${moved} rows moved, ${forks} forks, ${shared} rows shared; logits within ${worst.toExponential(1)}`,
    );
    expect(Math.min(evictions, moved, forks, shared)).toBeGreaterThan(0);
    expect(worst).toBeLessThan(1e-4);
  });

  test("what cannot be done is refused, and nothing changes", async () => {
    const pages = new PagedState(session, { blocks: 4, blockSize: 4 });
    const sequence = pages.add("one");
    await pages.step([{ sequence, tokens: Array.from({ length: 16 }, (_, at) => at) }]);
    const fork = sequence.fork("two");
    const before = JSON.stringify([pages.pool.describe(), positionsOf(fork)]);
    const saved = await pages.state.save();
    // Each block is shared and none is left for the copy that moving rows needs.
    await expect(pages.evict(fork, hitting(1, 0.5).policy, { budget: 5, exact: true })).rejects.toThrow(
      /is full: bringing the rows of "two" together needs? \d more, 0 are left/,
    );
    for (const budget of [0, -1, 1.5, NaN, Infinity])
      await expect(pages.evict(fork, recentWindow(), { budget })).rejects.toThrow(
        `sequence "two" of 16 rows: the budget must be a whole number of rows from 1 on, got ${budget}`,
      );
    await expect(pages.evict(fork, recentWindow({ sinks: 8 }), { budget: 6 })).rejects.toThrow(
      "the policy keeps 8 of 16 rows where at most 6 may stay",
    );
    expect(JSON.stringify([pages.pool.describe(), positionsOf(fork)])).toBe(before);
    fork.release();
    sequence.truncate(12);
    // An eviction that is asked for during a run comes after it, and a run that is asked for during an eviction after that.
    const told = await Promise.all([
      pages.step([{ sequence, tokens: [1] }]).then(() => sequence.position),
      pages.evict(sequence, recentWindow(), { budget: 6 }).then(({ kept }) => kept),
      pages.step([{ sequence, tokens: [2] }]).then(() => sequence.length),
    ]);
    expect(told).toEqual([13, 9, 10]);
    expect(sequence.position).toBe(14);
    sequence.truncate(0);
    await pages.step([{ sequence, tokens: Array.from({ length: 12 }, (_, at) => 1 + at) }]);
    expect((await pages.state.save()).length).toBe(saved.length);
    await pages.evict(sequence, recentWindow({ sinks: 1 }), { budget: 6 });
    pages.release();
  });
});

/** Texts that go on in random steps and are evicted on the way; every logit is compared with the long cache's. */
async function readAndEvict(
  session: InferenceSession,
  from: number,
  steps: number,
): Promise<{ evictions: number; moved: number; forks: number; shared: number; worst: number }> {
  interface Text {
    readonly sequence: Sequence;
    readonly tokens: number[];
    /** What the query of each token saw. */
    readonly visible: number[][];
    /** Undefined for tokens that another text has read. */
    readonly logits: (Float32Array | undefined)[];
    held: number[];
  }
  const random = seededRandom(from);
  const whole = (below: number): number => Math.floor(random() * below);
  const blockSize = [1, 2, 3, 5, 8, 16][whole(6)];
  const pages = new PagedState(session, { blocks: Math.ceil(600 / blockSize) + 40, blockSize });
  const prefix = Array.from({ length: 40 }, () => whole(128));
  const texts: Text[] = [];
  const over: Text[] = [];
  const result = { evictions: 0, moved: 0, forks: 0, shared: 0, worst: 0 };
  const begin = (): void => {
    const tokens = [...prefix.slice(0, whole(41)), 1 + whole(127)];
    const sequence = pages.add(undefined, tokens);
    const held = positionsOf(sequence);
    result.shared += held.length;
    texts.push({
      sequence,
      tokens: tokens.slice(0, held.length),
      visible: held.map((_, at) => held.slice(0, at + 1)),
      logits: held.map(() => undefined),
      held,
    });
  };
  const evict = async (text: Text): Promise<void> => {
    const { sequence, held } = text;
    if (held.length < 3) return;
    const budget = 1 + whole(held.length);
    const told = [
      windowed(whole(Math.min(8, budget))),
      hitting(whole(Math.min(4, budget)), [0, 0.3, 1][whole(3)]),
      coins(random),
    ][whole(3)];
    const exact = random() < 0.3;
    const scores = sequence.scores ?? held.map(() => 0);
    const what = `seed ${from}: ${held.length} rows, blocks of ${blockSize}, budget ${budget}`;
    const evicted = await pages.evict(sequence, told.policy, { budget, exact });
    const kept = positionsOf(sequence);
    const wanted = budget >= held.length ? new Set(held) : told.keeps(held, scores, budget);
    expect(kept, what).toEqual(expect.arrayContaining([...wanted]));
    expect(held, what).toEqual(expect.arrayContaining(kept));
    expect(kept, what).toEqual(kept.toSorted((a, b) => a - b));
    expect(kept.length - wanted.size, what).toBeLessThan(exact ? 1 : blockSize);
    expect(sequence.position, what).toBe(text.tokens.length);
    expect(evicted, what).toMatchObject({ kept: kept.length, spared: kept.length - wanted.size });
    text.held = kept;
    result.evictions++;
    result.moved += evicted.moved;
  };
  for (let step = 0; step < steps; step++) {
    if (texts.length < 2 || (texts.length < 6 && random() < 0.1)) begin();
    if (texts.length < 6 && random() < 0.1) {
      const { sequence, tokens, visible, logits, held } = texts[whole(texts.length)];
      texts.push({
        sequence: sequence.fork(),
        tokens: [...tokens],
        visible: [...visible],
        logits: [...logits],
        held: [...held],
      });
      result.forks++;
    }
    if (random() < 0.4) await evict(texts[whole(texts.length)]);
    const reading = texts.filter(({ tokens }) => tokens.length < 150 && random() < 0.7);
    const entries = reading.map((text) => {
      // A text whose prefix another one has read goes on behind it.
      const next = prefix.slice(text.tokens.length, text.tokens.length + 1 + whole(12));
      const more = text.tokens.every((token, at) => token === prefix[at]) && next.length > 0 ? next : [];
      return {
        text,
        tokens: more.length > 0 && random() < 0.8 ? more : Array.from({ length: 1 + whole(4) }, () => whole(128)),
      };
    });
    if (entries.length > 0) {
      const out = await pages.step(entries.map(({ text, tokens }) => ({ sequence: text.sequence, tokens })));
      entries.forEach(({ text, tokens }, at) => {
        const width = out[at].last.length;
        tokens.forEach((token, index) => {
          text.held = [...text.held, text.tokens.length];
          text.tokens.push(token);
          text.visible.push(text.held);
          text.logits.push(out[at].rows.slice(index * width, (index + 1) * width));
        });
        expect(positionsOf(text.sequence)).toEqual(text.held);
      });
    }
    if (texts.length > 3 && random() < 0.1) {
      const [text] = texts.splice(whole(texts.length), 1);
      text.sequence.release();
      over.push(text);
    }
  }
  for (const { tokens, visible, logits } of [...over, ...texts]) {
    if (tokens.length === 0) continue;
    const expected = await maskedLogits(bytes, tokens, visible);
    logits.forEach((row, at) => {
      if (row !== undefined) result.worst = Math.max(result.worst, distance(row, expected[at]));
    });
  }
  for (const { sequence } of texts) sequence.release();
  expect(pages.pool.statistics.used, `seed ${from}`).toBe(0);
  pages.release();
  return result;
}

describe("in linear caches, and with rows of each head", () => {
  test("a cache never outgrows its capacity, and keeps what the policy says", async () => {
    const session = await InferenceSession.create(bytes, { inPlace: "require" });
    const random = seededRandom(seed);
    const whole = (below: number): number => Math.floor(random() * below);
    for (let run = 0; run < (soak ? 60 : 6); run++) {
      const capacity = 2 + whole(30);
      const slack = 1 + whole(capacity - 1);
      const sinks = whole(Math.max(1, capacity - slack));
      const state = new EvictingState(session, { capacity, slack, policy: recentWindow({ sinks }) });
      const tokens = Array.from({ length: 3 * capacity }, () => whole(128));
      const [visible, logits]: [number[][], Float32Array[]] = [[], []];
      let held: number[] = [];
      for (const [at, token] of tokens.entries()) {
        logits.push(await state.step([token]));
        // Independently: when full, the sinks and the latest are left, the capacity less the slack.
        if (held.length === capacity)
          held = held.filter((position) =>
            windowed(sinks)
              .keeps(held, [], capacity - slack)
              .has(position),
          );
        held = [...held, at];
        expect(state.positions(), `seed ${seed}, run ${run}, token ${at}`).toEqual(held);
        visible.push(held);
      }
      const expected = await maskedLogits(bytes, tokens, visible);
      expect(Math.max(...logits.map((row, at) => distance(row, expected[at])))).toBeLessThan(1e-4);
      state.release();
    }
    await session.release();
  });

  test("heads with few blocks left are refused together or evicted together", async () => {
    const session = await pagedSession(bytes, { perHead: true, scores: true });
    const pages = new PerHeadState(session, { blocks: 9, blockSize: 4 });
    const text = pages.add("one");
    await pages.step([{ text, tokens: Array.from({ length: 16 }, (_, at) => at) }]);
    const fork = pages.fork(text, "two");
    const before = JSON.stringify([pages.pool.describe(), fork.heads.map(positionsOf)]);
    // One block is left, and each head needs a copy.
    await expect(pages.evict(fork, hitting(1, 0.5).policy, 6)).rejects.toThrow(
      /bringing the rows of "two" together needs? \d more, 1 are left/,
    );
    await expect(pages.evict(fork, recentWindow(), [6])).rejects.toThrow(
      'text "two" has 2 heads, and budgets for 1 were given',
    );
    for (const budget of [0, NaN, 2.5])
      await expect(pages.evict(fork, recentWindow(), [6, budget])).rejects.toThrow(
        `the budget must be a whole number of rows from 1 on, got ${budget}`,
      );
    expect(JSON.stringify([pages.pool.describe(), fork.heads.map(positionsOf)])).toBe(before);
    pages.release(text);
    await pages.evict(fork, windowed(1).policy, [6, 7]);
    fork.heads.forEach((sequence, head) =>
      expect(positionsOf(sequence)).toEqual(
        [
          ...windowed(1).keeps(
            Array.from({ length: 16 }, (_, at) => at),
            [],
            6 + head,
          ),
        ].toSorted((a, b) => a - b),
      ),
    );
    await session.release();
  });
});

test("options of policies are checked", () => {
  for (const sinks of [-1, 1.5, NaN, Infinity]) {
    expect(() => recentWindow({ sinks })).toThrow(`option sinks must be a whole number from 0 on, got ${sinks}`);
    expect(() => heavyHitters({ sinks })).toThrow(`option sinks must be a whole number from 0 on, got ${sinks}`);
  }
  for (const recent of [-0.1, 1.1, NaN])
    expect(() => heavyHitters({ recent })).toThrow(`option recent must be a share from 0 to 1, got ${recent}`);
});
