// Eviction: a text of any length in a cache of few rows. Logits are those of a long cache in which each query is shown, by a mask, exactly
// the positions that were there when it ran.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  applyPolicy,
  type EvictionPolicy,
  headBudgets,
  heavyHitters,
  recentWindow,
  rowsInBlocks,
} from "../../src/cache/eviction.js";
import { EvictingState } from "../../packages/eviction/evicting-state.js";
import { type Evicted, PagedState } from "../../src/cache/paged-state.js";
import { PerHeadState } from "../../packages/eviction/per-head-state.js";
import { withAttentionScores } from "../../packages/eviction/scores-model.js";
import { smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { decoderBytes, distance, pagedSession } from "./support.js";
import { maskedLogits } from "./masked.js";
import { soak } from "../support/soak.js";

const sizes = { ...smallSizes, positions: 16_384 };
const text = (count: number): number[] => Array.from({ length: count }, (_, at) => (at * at * 7 + at * 3 + 5) % 128);

/** What a run saw: the positions in the cache before it, and its tokens. */
interface Seen {
  readonly visible: readonly (readonly number[])[];
  readonly logits: readonly Float32Array[];
}

/** Reads a text token by token in an evicting state. */
async function readEvicting(session: InferenceSession, tokens: readonly number[], state: EvictingState): Promise<Seen> {
  const [visible, logits]: [number[][], Float32Array[]] = [[], []];
  for (const token of tokens) {
    logits.push(await state.step([token]));
    visible.push([...state.positions()]);
  }
  return { visible, logits };
}

function worst(a: readonly Float32Array[], b: readonly Float32Array[]): number {
  return Math.max(...a.map((row, at) => distance(row, b[at])));
}

describe.each([{ caches: "rows" }, { caches: "heads" }] as const)("window and sinks, caches of $caches", (form) => {
  const [capacity, count] = soak ? [1024, 10_000] : [64, 400];

  test(`${count} tokens in ${capacity} rows`, async () => {
    const bytes = decoderBytes(form, sizes);
    const session = await InferenceSession.create(bytes, { inPlace: "require" });
    const state = new EvictingState(session, { capacity, policy: recentWindow({ sinks: 4 }) });
    const bytesBefore = state.state.byteLength;
    const seen = await readEvicting(session, text(count), state);
    expect(state.position).toBe(count);
    expect(state.state.byteLength).toBe(bytesBefore);
    expect(state.state.statistics.movedBytes).toBe(0);
    const most = Math.max(...seen.visible.map(({ length }) => length));
    expect(most).toBe(capacity);
    expect(seen.visible.at(-1)!.slice(0, 5)).toEqual([0, 1, 2, 3, expect.any(Number)]);
    expect(seen.visible.at(-1)![4]).toBeGreaterThan(count - capacity);
    const expected = await maskedLogits(bytes, text(count), seen.visible);
    const difference = worst(seen.logits, expected);
    console.log(
      `${count} tokens in ${capacity} rows (${form.caches}): logits within ${difference.toExponential(1)} of the long cache's, ${state.movedRows} rows moved`,
    );
    expect(difference).toBeLessThan(1e-4);
    await session.release();
  });
});

test("memory stays flat", () => {
  const [capacity, count] = soak ? [1024, 10_000] : [128, 1200];
  const folder = mkdtempSync(join(tmpdir(), "insitu-evict-"));
  const script = join(folder, "evict.mjs");
  const entry = new URL("../../dist/index.node.js", import.meta.url).href;
  writeFileSync(join(folder, "model.onnx"), decoderBytes({}, sizes));
  writeFileSync(
    script,
    `import { EvictingState, InferenceSession, recentWindow } from ${JSON.stringify(entry)};
     const session = await InferenceSession.create(${JSON.stringify(join(folder, "model.onnx"))}, { inPlace: "require" });
     const state = new EvictingState(session, { capacity: ${capacity}, policy: recentWindow({ sinks: 4 }) });
     let before, allocations;
     for (let at = 0; at < ${count}; at++) {
       await state.step([(at * 37) % 128]);
       if (at === ${count / 2}) [before, allocations] = [process.memoryUsage().rss, session.memory.allocations];
     }
     console.log(JSON.stringify({
       grown: process.memoryUsage().rss - before,
       allocations: session.memory.allocations - allocations,
       rows: state.length,
       position: state.position,
       moved: state.state.statistics.movedBytes,
     }));
     await session.release();`,
  );
  const result = JSON.parse(execFileSync(process.execPath, [script], { encoding: "utf8" })) as Record<string, number>;
  rmSync(folder, { recursive: true });
  console.log(
    `${count} tokens in ${capacity} rows: ${(result["grown"] / 2 ** 20).toFixed(1)} MiB grown after the first half`,
  );
  expect(result).toMatchObject({ position: count, moved: 0, allocations: 0 });
  expect(result["rows"]).toBeLessThanOrEqual(capacity);
  expect(result["grown"]).toBeLessThan(10 * 2 ** 20);
});

test("prompts are read in pieces, and chunks see what is left", async () => {
  const bytes = decoderBytes({}, sizes);
  const session = await InferenceSession.create(bytes, { inPlace: "require" });
  const state = new EvictingState(session, { capacity: 32, slack: 8, policy: recentWindow({ sinks: 2 }) });
  const all = text(150);
  const visible: number[][] = [];
  const logits: Float32Array[] = [];
  for (let at = 0; at < all.length; at += 5) {
    // Pieces of five: the last token's logits are compared.
    const part = all.slice(at, at + 5);
    if (state.length + part.length > 32) await state.evict(part.length);
    const before = [...state.positions()];
    logits.push(await state.step(part));
    part.forEach((_, index) => visible.push([...before, ...part.slice(0, index + 1).map((__, i) => at + i)]));
  }
  const expected = await maskedLogits(bytes, all, visible);
  expect(
    worst(
      logits,
      expected.filter((_, at) => at % 5 === 4),
    ),
  ).toBeLessThan(1e-4);
  await session.release();
});

test("rows move by the kernel, on linear caches and on pages", async () => {
  const session = await InferenceSession.create(decoderBytes({}, sizes));
  const state = new EvictingState(session, { capacity: 16, policy: recentWindow({ sinks: 2 }) });
  await state.step(text(20));
  expect(session.explain()).toMatch(/edits of caches\n {2}RepackCache on 4 caches, in place, by repackRows$/m);
  await session.release();
  const onPages = await pagedSession(decoderBytes({}, sizes));
  const pages = new PagedState(onPages, { blocks: 8, blockSize: 4 });
  const sequence = pages.add("one");
  await pages.step([{ sequence, tokens: text(20) }]);
  expect((await pages.evict(sequence, recentWindow({ sinks: 1 }), { budget: 9, exact: true })).moved).toBeGreaterThan(
    0,
  );
  expect(onPages.explain()).toMatch(/edits of caches\n {2}RepackCache on 4 caches, in place, by repackRows$/m);
  await onPages.release();
});

test("a fork of the state keeps its rows when the other evicts", async () => {
  const session = await InferenceSession.create(decoderBytes({}, sizes));
  const state = new EvictingState(session, { capacity: 16, policy: recentWindow({ sinks: 2 }) });
  await state.step(text(16));
  const fork = state.state.fork();
  const before = await fork.save();
  await state.step(text(24).slice(16));
  expect(Buffer.compare(Buffer.from(await fork.save()), Buffer.from(before))).toBe(0);
  expect(fork.lengths).toEqual([16]);
  await session.release();
});

test("heavy hitters keep what got attention", async () => {
  const bytes = decoderBytes({}, sizes);
  const session = await InferenceSession.create(bytes, { inPlace: "require", change: withAttentionScores });
  const state = new EvictingState(session, { capacity: 48, slack: 8, policy: heavyHitters({ sinks: 2, recent: 0.4 }) });
  const seen = await readEvicting(session, text(200), state);
  const kept = state.positions();
  // Neither only the oldest nor only the latest are there: some from the middle were worth keeping.
  expect(kept.slice(0, 2)).toEqual([0, 1]);
  expect(kept.filter((position) => position > 1 && position < 150).length).toBeGreaterThan(5);
  const expected = await maskedLogits(bytes, text(200), seen.visible);
  expect(worst(seen.logits, expected)).toBeLessThan(1e-4);
  await session.release();
});

test("every head keeps rows of its own", async () => {
  const bytes = decoderBytes({ caches: "heads" }, sizes);
  const session = await InferenceSession.create(bytes, { inPlace: "require", change: withAttentionScores });
  const state = new EvictingState(session, {
    capacity: 40,
    slack: 8,
    perHead: true,
    policy: heavyHitters({ sinks: 1, recent: 0.3 }),
  });
  const visible: number[][][] = [];
  const logits: Float32Array[] = [];
  for (const token of text(160)) {
    logits.push(await state.step([token]));
    visible.push([0, 1].map((head) => [...state.positions(head)]));
  }
  expect(state.positions(0)).not.toEqual(state.positions(1));
  const expected = await maskedLogits(bytes, text(160), visible);
  expect(worst(logits, expected)).toBeLessThan(1e-4);
  await session.release();
});

describe("on pages", () => {
  const read = async (
    pages: PagedState,
    tokens: readonly number[],
    capacity: number,
    evict: (sequence: ReturnType<PagedState["add"]>) => Promise<unknown>,
  ): Promise<Seen & { readonly most: number }> => {
    const sequence = pages.add("long");
    const [visible, logits]: [number[][], Float32Array[]] = [[], []];
    let most = 0;
    for (const token of tokens) {
      if (sequence.length >= capacity) await evict(sequence);
      const [{ last }] = await pages.step([{ sequence, tokens: [token] }]);
      logits.push(last.slice());
      visible.push(Array.from({ length: sequence.length }, (_, row) => sequence.positionOf(row)));
      most = Math.max(most, pages.pool.statistics.used);
    }
    expect(sequence.position).toBe(tokens.length);
    return { visible, logits, most };
  };

  test("whole blocks are given back, and nothing moves", async () => {
    const bytes = decoderBytes({}, sizes);
    const session = await pagedSession(bytes);
    const pages = new PagedState(session, { blocks: 16, blockSize: 8 });
    const evicted: Evicted[] = [];
    const seen = await read(pages, text(300), 64, async (sequence) =>
      evicted.push(await pages.evict(sequence, recentWindow({ sinks: 4 }), { budget: 52 })),
    );
    expect(seen.most).toBeLessThanOrEqual(8);
    expect(evicted).toHaveLength(30);
    for (const one of evicted) expect(one).toEqual({ kept: 56, spared: 4, moved: 0, blocks: 1 });
    expect(pages.pool.statistics.copies).toBe(0);
    expect(worst(seen.logits, await maskedLogits(bytes, text(300), seen.visible))).toBeLessThan(1e-4);
    await session.release();
  });

  test.each(["same", "int8"] as const)(
    "survivors move together, also in blocks that a fork shares: %s",
    async (cacheType) => {
      const bytes = decoderBytes({}, sizes);
      const session = await pagedSession(bytes, { scores: true, cacheType });
      const pages = new PagedState(session, { blocks: 32, blockSize: 8 });
      const root = pages.add("root");
      const wanted: Float32Array[] = [];
      for (const token of text(40)) {
        const [{ last }] = await pages.step([{ sequence: root, tokens: [token] }]);
        wanted.push(last.slice());
      }
      const fork = root.fork("fork");
      await pages.evict(fork, heavyHitters({ sinks: 1, recent: 0.3 }), { budget: 20, exact: true });
      expect([fork.length, fork.position, root.length]).toEqual([20, 40, 40]);
      // The root still answers as if nothing had happened.
      root.truncate(39);
      const [{ last }] = await pages.step([{ sequence: root, tokens: [text(40)[39]] }]);
      expect(distance(last, wanted[39])).toBe(0);
      const visible = Array.from({ length: 40 }, (_, at) => Array.from({ length: at + 1 }, (__, row) => row));
      const logits = [...wanted];
      for (let at = 40; at < 60; at++) {
        const [next] = await pages.step([{ sequence: fork, tokens: [text(60)[at]] }]);
        logits.push(next.last.slice());
        visible.push(Array.from({ length: fork.length }, (_, row) => fork.positionOf(row)));
      }
      const difference = worst(logits, await maskedLogits(bytes, text(60), visible));
      expect(difference).toBeLessThan(cacheType === "same" ? 1e-4 : 0.5);
      await session.release();
    },
  );
});

test.each(["same", "int8"] as const)("heads with budgets of their own, on pages of %s", async (cacheType) => {
  const bytes = decoderBytes({}, sizes);
  const session = await pagedSession(bytes, { perHead: true, scores: true, cacheType });
  const pages = new PerHeadState(session, { blocks: 40, blockSize: 4 });
  const [text1, text2] = [pages.add(), pages.add()];
  const both = [text(90), text(95).slice(5)];
  const visible: number[][][][] = [[], []];
  const logits: Float32Array[][] = [[], []];
  await pages.step([{ text: text2, tokens: both[1].slice(0, 2) }]);
  for (let at = 0; at < 80; at++) {
    const entries = [text1, text2].map((one, index) => ({
      text: one,
      // One starts with a longer piece: the other is padded.
      tokens: index === 0 && at === 0 ? both[0].slice(0, 3) : [both[index][at + 2]],
    }));
    const out = await pages.step(entries);
    out.forEach(({ last }, index) => logits[index].push(last.slice()));
    [text1, text2].forEach((one, index) =>
      visible[index].push(
        one.heads.map((sequence) => Array.from({ length: sequence.length }, (_, row) => sequence.positionOf(row))),
      ),
    );
    if (at % 20 === 19)
      for (const one of [text1, text2]) {
        const scores = one.heads.map((sequence) => sequence.scores!);
        await pages.evict(one, heavyHitters({ sinks: 1, recent: 0.3 }), headBudgets(scores, 32, 8));
      }
  }
  expect(text1.heads.map(({ position }) => position)).toEqual([82, 82]);
  const lengths = text1.heads.map(({ length }) => length);
  expect(Math.max(...lengths)).toBeGreaterThan(Math.min(...lengths));
  expect(lengths[0] + lengths[1]).toBe(32);
  for (const index of [0, 1]) {
    const first = [0, 1].map((at) => [0, 1].map(() => Array.from({ length: at + 1 }, (_, row) => row)));
    const shown = [...first, ...visible[index].map((lists) => lists)];
    const expected = await maskedLogits(bytes, both[index].slice(0, 82), shown);
    expect(worst(logits[index], expected.slice(2))).toBeLessThan(cacheType === "same" ? 1e-4 : 0.5);
  }
  pages.release(text1);
  expect(pages.pool.sequences).toHaveLength(2);
  await session.release();
});

describe("policies", () => {
  const positions = Array.from({ length: 10 }, (_, at) => at);
  const scores = [9, 0, 5, 1, 8, 0, 0, 7, 0, 0];

  test("choose rows", () => {
    expect(recentWindow({ sinks: 2 })({ positions, scores: undefined, budget: 5 })).toEqual([0, 1, 7, 8, 9]);
    // Sinks are told by position: rows that were sinks once and are gone do not come back.
    const later = positions.map((position) => position + 5);
    expect(recentWindow({ sinks: 2 })({ positions: later, scores: undefined, budget: 3 })).toEqual([7, 8, 9]);
    expect(heavyHitters({ sinks: 1, recent: 0.4 })({ positions, scores, budget: 5 })).toEqual([0, 4, 7, 8, 9]);
    expect(rowsInBlocks([0, 1, 5, 6], 10, 4)).toEqual([0, 1, 5, 6, 8, 9]);
    expect(
      headBudgets(
        [
          [1, 1, 1, 1],
          [10, 0, 0, 0],
        ],
        5,
      ),
    ).toEqual([4, 1]);
    expect(
      headBudgets(
        [
          [1, 1],
          [1, 1],
          [1, 1],
        ],
        6,
        2,
      ),
    ).toEqual([2, 2, 2]);
  });

  test("are pure: the same rows give the same answer, and nothing is written", () => {
    const given = Object.freeze({ positions: Object.freeze(positions), scores: Object.freeze(scores), budget: 4 });
    for (const policy of [recentWindow(), heavyHitters()]) expect(policy(given)).toEqual(policy(given));
  });

  test("that evict nothing, name wrong rows or lack scores are refused, and the state is intact", async () => {
    const session = await InferenceSession.create(decoderBytes({}, sizes), { inPlace: "require" });
    const keepAll: EvictionPolicy = ({ positions: all }) => all.map((_, row) => row);
    const state = new EvictingState(session, { capacity: 8, policy: keepAll });
    await state.step(text(8));
    await expect(state.step([1])).rejects.toThrow(
      "the cache of 8 rows is full: the policy keeps 8 of 8 rows where at most 7 may stay: it evicts nothing, and room is needed",
    );
    expect([state.length, state.position]).toEqual([8, 8]);
    expect(() => applyPolicy(() => [3, 3], { positions, scores, budget: 4 }, 4, "x")).toThrow(
      "x: the policy must name rows of 10 in ascending order, got 3 as number 1",
    );
    expect(() => heavyHitters()({ positions, scores: undefined, budget: 4 })).toThrow(
      /none were measured: load the model with scores/,
    );
    for (const needed of [-1, 9, 1.5, NaN])
      await expect(state.evict(needed)).rejects.toThrow(
        `a cache of 8 rows can make room for that many at most, got ${needed}`,
      );
    expect(() => new EvictingState(session, { capacity: 8, slack: 8, policy: keepAll })).toThrow(
      /option slack must be/,
    );
    expect(() => new EvictingState(session, { capacity: 8, perHead: true, policy: keepAll })).toThrow(
      /heads keep rows of their own only in \[batch, heads, rows, head size\]/,
    );
    await session.release();
  });
});
