// Sequences of different lengths on one set of pages: the logits are those of linear caches, and nobody changes anybody else's.
import { describe, expect, test } from "vitest";
import { PagedState } from "../../src/cache/paged-state.js";
import { InferenceSession } from "../../src/entry/node.js";
import { step, tokens } from "../support/decoding.js";
import { decoderBytes, distance, linearLogits, pagedSession } from "./support.js";

const forms = [
  { caches: "rows", layout: "Norm" },
  { caches: "heads", layout: "Norm" },
  { caches: "rows", layout: "NHSD" },
  { caches: "heads", layout: "NHSD" },
] as const;

describe.each(["reference", "wasm"] as const)("on %s", (backend) => {
  test.each(forms)("a ragged batch agrees with linear caches: $caches, $layout", async ({ caches, layout }) => {
    const bytes = decoderBytes({ caches });
    const linear = await InferenceSession.create(bytes, { backend });
    const session = await pagedSession(bytes, { layout }, { backend });
    const pages = new PagedState(session, { blocks: 32, blockSize: 4 });
    const texts = [tokens(0, 19), tokens(50, 57), tokens(100, 101)];
    const wanted: Float32Array[][] = [];
    for (const text of texts) wanted.push(await linearLogits(linear, [...text, 7, 9]));
    const sequences = texts.map((_, at) => pages.add(`text ${at}`));
    const read = await pages.step(sequences.map((sequence, at) => ({ sequence, tokens: texts[at] })));
    texts.forEach((text, at) => {
      const rows = wanted[at].slice(0, text.length).flatMap((row) => [...row]);
      expect(distance(read[at].rows, rows)).toBeLessThan(1e-4);
    });
    for (const [next, token] of [7, 9].entries()) {
      const out = await pages.step(sequences.map((sequence) => ({ sequence, tokens: [token] })));
      out.forEach(({ last }, at) => expect(distance(last, wanted[at][texts[at].length + next])).toBeLessThan(1e-4));
    }
    expect(pages.state.statistics.movedBytes).toBe(0);
    await Promise.all([linear.release(), session.release()]);
  });

  test("forks share blocks until they write, and never change each other", async () => {
    const bytes = decoderBytes();
    const linear = await InferenceSession.create(bytes, { backend });
    const session = await pagedSession(bytes, {}, { backend });
    const pages = new PagedState(session, { blocks: 16, blockSize: 4 });
    const root = pages.add("root");
    await pages.step([{ sequence: root, tokens: tokens(0, 10) }]);
    const forks = [root.fork("left"), root.fork("right")];
    expect(pages.pool.statistics).toMatchObject({ used: 3, shared: 3 });
    const ends = [
      [3, 5, 8, 1],
      [4, 6, 9, 2],
      [90, 91, 92, 93],
    ];
    const all = [...forks, root];
    const wanted: Float32Array[][] = [];
    for (const end of ends) wanted.push(await linearLogits(linear, [...tokens(0, 10), ...end]));
    for (let at = 0; at < 4; at++) {
      const out = await pages.step(all.map((sequence, index) => ({ sequence, tokens: [ends[index][at]] })));
      out.forEach(({ last }, index) => expect(distance(last, wanted[index][10 + at])).toBeLessThan(1e-4));
    }
    expect(pages.pool.statistics).toMatchObject({ shared: 2, copies: 2 });
    await Promise.all([linear.release(), session.release()]);
  });

  test("a prefix is read once and shared, with the same logits", async () => {
    const bytes = decoderBytes();
    const linear = await InferenceSession.create(bytes, { backend });
    const session = await pagedSession(bytes, {}, { backend });
    const pages = new PagedState(session, { blocks: 64, blockSize: 8 });
    const prefix = tokens(0, 50);
    const first = pages.add("first", [...prefix, 1, 2, 3]);
    expect(first.length).toBe(0);
    await pages.step([{ sequence: first, tokens: [...prefix, 1, 2, 3] }]);
    const text = [...prefix, 9, 8, 7];
    const second = pages.add("second", text);
    expect(second.length).toBe(48);
    const [{ last }] = await pages.step([{ sequence: second, tokens: text.slice(48) }]);
    expect(distance(last, (await linearLogits(linear, text)).at(-1)!)).toBeLessThan(1e-4);
    expect(pages.pool.statistics).toMatchObject({ used: 8, shared: 6 });
    // Going back and on again: what was forgotten leaves no trace.
    second.truncate(50);
    const [again] = await pages.step([{ sequence: second, tokens: [4, 4] }]);
    expect(distance(again.last, (await linearLogits(linear, [...prefix, 4, 4])).at(-1)!)).toBeLessThan(1e-4);
    await Promise.all([linear.release(), session.release()]);
  });
});

test("two conversations with a common prefix of 1,000 tokens hold it once, in every layer", async () => {
  const session = await pagedSession(decoderBytes());
  const linear = await InferenceSession.create(decoderBytes());
  const state = new PagedState(session, { blocks: 80, blockSize: 16 });
  const prefix = tokens(0, 1000);
  const read = async (name: string, end: readonly number[]): Promise<{ shared: number; last: Float32Array }> => {
    const text = [...prefix, ...end];
    const sequence = state.add(name, text);
    const shared = sequence.length;
    let last: Float32Array = new Float32Array();
    for (let at = shared; at < text.length; at += 250)
      [{ last }] = await state.step([{ sequence, tokens: text.slice(at, at + 250) }]);
    return { shared, last };
  };
  const [one, two] = [await read("one", [1, 2, 3]), await read("two", [4, 5, 6])];
  expect([one.shared, two.shared]).toEqual([0, 992]);
  // 62 full blocks once, and each one's last 11 rows.
  expect(state.pool.statistics).toMatchObject({ used: 64, shared: 62, copies: 0 });
  const alone = linear.createState({ dims: { capacity: 1003 } });
  expect(distance(two.last, await step(linear, alone, [...prefix, 4, 5, 6]))).toBeLessThan(1e-4);
  await Promise.all([linear.release(), session.release()]);
});

test("runs that are asked for at the same time take turns", async () => {
  const session = await pagedSession(decoderBytes());
  const linear = await InferenceSession.create(decoderBytes());
  const state = new PagedState(session, { blocks: 32, blockSize: 4 });
  const texts = [tokens(0, 9), tokens(40, 60), tokens(90, 93)];
  const made = await Promise.all(
    texts.map((text, at) => state.step([{ sequence: state.add(`text ${at}`), tokens: text }])),
  );
  for (const [at, text] of texts.entries())
    expect(distance(made[at][0].last, (await linearLogits(linear, text)).at(-1)!)).toBeLessThan(1e-4);
  await Promise.all([linear.release(), session.release()]);
});

test.each([
  { cacheType: "int8", layout: "Norm", most: 0.1 },
  { cacheType: "int8", layout: "NHSD", most: 0.1 },
  { cacheType: "float8e4m3fn", layout: "Norm", most: 0.4 },
  { cacheType: "float8e5m2", layout: "NHSD", most: 0.8 },
] as const)("pages of bytes come close: $cacheType, $layout", async ({ cacheType, layout, most }) => {
  const bytes = decoderBytes();
  const linear = await InferenceSession.create(bytes);
  const session = await pagedSession(bytes, { cacheType, layout });
  const state = new PagedState(session, { blocks: 32, blockSize: 4 });
  const text = tokens(0, 30);
  const wanted = await linearLogits(linear, text);
  const sequence = state.add();
  let difference = 0;
  for (const [at, token] of text.entries()) {
    const [{ last }] = await state.step([{ sequence, tokens: [token] }]);
    difference = Math.max(difference, distance(last, wanted[at]));
  }
  expect(difference).toBeGreaterThan(0);
  expect(difference).toBeLessThan(most);
  expect(state.state.statistics.movedBytes).toBe(0);
  await Promise.all([linear.release(), session.release()]);
});

test("a run that fails, and a pool that is full, leave the sequences as they were", async () => {
  const session = await pagedSession(decoderBytes(), {}, { backend: "reference" });
  const pages = new PagedState(session, { blocks: 4, blockSize: 4 });
  const [one, two] = [pages.add("one"), pages.add("two")];
  await pages.step([{ sequence: one, tokens: tokens(0, 6) }]);
  const before = JSON.stringify(pages.pool.describe());
  await expect(pages.step([one, two].map((sequence) => ({ sequence, tokens: tokens(0, 7) })))).rejects.toThrow(
    /the pool of 4 blocks of 4 rows is full: 7 rows of "one", 7 rows of "two" need 4 more, 2 are left; "one" holds 2;/,
  );
  await expect(pages.step([{ sequence: one, tokens: [4000] }])).rejects.toThrow(
    /^Gather "embedded": indices\[0,0\] must/,
  );
  expect(JSON.stringify(pages.pool.describe())).toBe(before);
  await expect(pages.step([{ sequence: two, tokens: [] }])).rejects.toThrow('sequence "two" has no token to read');
  two.release();
  await expect(pages.step([{ sequence: two, tokens: [1] }])).rejects.toThrow('append: sequence "two" was released');
  const linear = await InferenceSession.create(decoderBytes(), { backend: "reference" });
  expect(() => new PagedState(linear, { blocks: 4 })).toThrow(/has no input "slot_mapping": load it on pages/);
  await Promise.all([linear.release(), session.release()]);
});
