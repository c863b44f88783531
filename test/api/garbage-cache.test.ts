// Pools, sequences, pages and evicting states, made and called with values of every kind: they work, or throw an InsituError.
import { afterAll, beforeAll, expect, test } from "vitest";
import { BlockPool } from "../../src/cache/block-pool.js";
import { EvictingState } from "../../packages/eviction/evicting-state.js";
import { headBudgets, heavyHitters, recentWindow } from "../../src/cache/eviction.js";
import { PagedState } from "../../src/cache/paged-state.js";
import { pages } from "../../src/cache/pages.js";
import { PerHeadState, type PerHeadText } from "../../packages/eviction/per-head-state.js";
import { withAttentionScores } from "../../packages/eviction/scores-model.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { Doors, garbage, loosely, method } from "./garbage.js";

const model = writeModel(generatedDecoder({ ...smallSizes, layers: 1, positions: 64 }, { caches: "heads" }));
const make = (constructor: unknown, ...args: unknown[]): unknown =>
  Reflect.construct(constructor as new () => unknown, args);

test("a pool and its sequences", async () => {
  const doors = new Doors();
  const right = { blocks: 8, blockSize: 2 };
  await doors.each("new BlockPool(it)", (it) => make(BlockPool, it));
  for (const option of ["blocks", "blockSize", "copy", "sharePrefixes", "hash"])
    await doors.each(`new BlockPool({ ${option}: it })`, (it) => make(BlockPool, { ...right, [option]: it }));
  const pool = new BlockPool(right);
  const sequence = pool.add("text");
  sequence.append([1, 2, 3]);
  await doors.each("add(it)", (it) => (method(pool, "add", it) as { release(): void }).release());
  await doors.each("append(it)", (it) => method(pool, "append", it));
  await doors.each("append([it])", (it) => method(pool, "append", [it]));
  await doors.each("append([{ sequence: it }])", (it) => method(pool, "append", [{ sequence: it, tokens: [1] }]));
  await doors.each("append([{ tokens: it }])", (it) => {
    method(pool, "append", [{ sequence, tokens: it }]);
    sequence.truncate(3);
  });
  await doors.each("append([{ tokens: [it] }])", (it) => {
    method(pool, "append", [{ sequence, tokens: [it] }]);
    sequence.truncate(3);
  });
  for (const name of [
    "append",
    "share",
    "fork",
    "truncate",
    "slots",
    "positionOf",
    "costOfKeeping",
    "dropColumns",
    "addScores",
  ]) {
    await doors.each(`sequence.${name}(it)`, (it) => method(pool.add(), name, it));
    await doors.each(`sequence.${name}([it])`, (it) => method(pool.add(), name, [it]));
    for (const each of pool.sequences) if (each !== sequence) each.release();
  }
  await doors.each("sequence.slots(0, it)", (it) => method(sequence, "slots", 0, it));
  await doors.each("sequence.keep(it)", (it) => {
    const fork = sequence.fork();
    try {
      method(fork, "keep", it, () => {});
    } finally {
      fork.release();
    }
  });
  await doors.each("sequence.keep(rows, it)", (it) => method(pool.add(), "keep", [], it));
  await doors.each("sequence.overwrite(it, 1)", (it) => method(sequence, "overwrite", it, 1));
  await doors.each("sequence.overwrite(0, it)", (it) => method(sequence, "overwrite", 0, it));
  doors.check();
  expect(sequence.length).toBe(3);
});

test("policies", async () => {
  const doors = new Doors();
  await doors.each("recentWindow(it)", (it) => loosely(recentWindow, it));
  await doors.each("recentWindow({ sinks: it })", (it) => loosely(recentWindow, { sinks: it }));
  await doors.each("heavyHitters(it)", (it) => loosely(heavyHitters, it));
  await doors.each("heavyHitters({ sinks: it })", (it) => loosely(heavyHitters, { sinks: it }));
  await doors.each("heavyHitters({ recent: it })", (it) => loosely(heavyHitters, { recent: it }));
  await doors.each("headBudgets(it, 4)", (it) => loosely(headBudgets, it, 4));
  await doors.each("headBudgets([it], 4)", (it) => loosely(headBudgets, [it], 4));
  await doors.each("headBudgets(scores, it)", (it) => loosely(headBudgets, [[1, 2, 3]], it));
  await doors.each("headBudgets(scores, 4, it)", (it) => loosely(headBudgets, [[1, 2, 3]], 4, it));
  await doors.each("withAttentionScores(it)", (it) => loosely(withAttentionScores, it));
  await doors.each("pages(it)", (it) => loosely(pages, it));
  for (const option of ["cacheType", "layout", "perHead", "scores"])
    await doors.each(`pages({ ${option}: it })`, (it) => loosely(pages, { [option]: it }));
  await doors.each("pages()(it)", (it) => loosely(pages(), it));
  doors.check();
});

let paged: InferenceSession;
let plain: InferenceSession;
let heads: InferenceSession;
beforeAll(async () => {
  const options = { threads: 1, memoryLimit: 2 ** 26 };
  paged = await InferenceSession.create(model, { ...options, change: pages() });
  plain = await InferenceSession.create(model, options);
  heads = await InferenceSession.create(model, { ...options, change: pages({ perHead: true }) });
});
afterAll(() => Promise.all([paged, plain, heads].map((session) => session.release())));

test("a paged state", async () => {
  const doors = new Doors();
  const made = (...args: unknown[]): void => (make(PagedState, ...args) as PagedState).release();
  await doors.each("new PagedState(it)", (it) => made(it, { blocks: 4 }));
  await doors.each("new PagedState(session, it)", (it) => made(paged, it));
  for (const option of ["blocks", "blockSize", "sharePrefixes", "hash"])
    await doors.each(`new PagedState(session, { ${option}: it })`, (it) => made(paged, { blocks: 4, [option]: it }));
  const state = new PagedState(paged, { blocks: 8, blockSize: 4 });
  const sequence = state.add("text");
  await state.step([{ sequence, tokens: [1, 2, 3] }]);
  await doors.each("add(it)", (it) => (method(state, "add", it) as { release(): void }).release());
  await doors.each("add(name, it)", (it) => (method(state, "add", undefined, it) as { release(): void }).release());
  await doors.each("step(it)", (it) => method(state, "step", it));
  await doors.each("step([it])", (it) => method(state, "step", [it]));
  await doors.each("step([{ sequence: it }])", (it) => method(state, "step", [{ sequence: it, tokens: [1] }]));
  for (const name of ["tokens", "position", "rows"])
    await doors.each(`step([{ ${name}: it }])`, async (it) => {
      await method(state, "step", [{ sequence, tokens: [1], [name]: it }]);
      sequence.truncate(3);
    });
  await doors.each("step([{ tokens: [it] }])", async (it) => {
    await method(state, "step", [{ sequence, tokens: [it] }]);
    sequence.truncate(3);
  });
  await doors.each("run(entries, it)", (it) => method(state, "run", [], it));
  await doors.each("keep(it, rows)", (it) => method(state, "keep", it, [0]));
  await doors.each("keep(sequence, it)", (it) => method(state, "keep", state.add(), it));
  await doors.each("evict(it)", (it) => method(state, "evict", it, recentWindow(), { budget: 2 }));
  await doors.each("evict(sequence, it)", (it) => method(state, "evict", sequence, it, { budget: 2 }));
  await doors.each("evict(sequence, policy, it)", (it) => method(state, "evict", sequence, recentWindow(), it));
  await doors.each("evict(sequence, policy, { budget: it })", (it) =>
    method(state, "evict", sequence, recentWindow(), { budget: it }),
  );
  await doors.each("evict(sequence, () => it)", (it) => method(state, "evict", sequence, () => it, { budget: 2 }));
  doors.check();
  // Runs take turns: none of those that were refused is still waited for.
  await state.step([{ sequence: state.add(), tokens: [1] }]);
  state.release();
});

test("states that evict", async () => {
  const doors = new Doors();
  const made = (...args: unknown[]): void => (make(EvictingState, ...args) as EvictingState).release();
  const right = { capacity: 8, policy: recentWindow(), slack: 1 };
  await doors.each("new EvictingState(it)", (it) => made(it, right));
  await doors.each("new EvictingState(session, it)", (it) => made(plain, it));
  for (const option of ["capacity", "policy", "slack", "perHead"])
    await doors.each(`new EvictingState(session, { ${option}: it })`, (it) => made(plain, { ...right, [option]: it }));
  await doors.each("step(it)", async (it) => {
    const state = new EvictingState(plain, right);
    try {
      await method(state, "step", it);
    } finally {
      state.release();
    }
  });
  const state = new EvictingState(plain, right);
  await doors.each("step([it])", (it) => method(state, "step", [it]));
  await doors.each("positions(it)", (it) => method(state, "positions", it));
  await doors.each("evict(it)", (it) => method(state, "evict", it));
  await doors.each("a policy that gives it", async (it) => {
    const odd = make(EvictingState, plain, { ...right, policy: () => it }) as EvictingState;
    try {
      await odd.step([1, 2, 3, 4, 5, 6, 7, 8]);
      await odd.step([9]);
    } finally {
      odd.release();
    }
  });
  const perHead = (...args: unknown[]): unknown => make(PerHeadState, ...args);
  await doors.each("new PerHeadState(it)", (it) => perHead(it, { blocks: 4 }));
  await doors.each("new PerHeadState(session, it)", (it) => perHead(heads, it));
  const texts = new PerHeadState(heads, { blocks: 16, blockSize: 4 });
  const text = texts.add("text");
  await texts.step([{ text, tokens: [1, 2, 3] }]);
  await doors.each("add(it)", (it) => texts.release(method(texts, "add", it) as PerHeadText));
  await doors.each("fork(it)", (it) => texts.release(method(texts, "fork", it) as PerHeadText));
  await doors.each("fork(text, it)", (it) => texts.release(method(texts, "fork", text, it) as PerHeadText));
  await doors.each("step(it)", (it) => method(texts, "step", it));
  await doors.each("step([{ text: it }])", (it) => method(texts, "step", [{ text: it, tokens: [1] }]));
  await doors.each("step([{ text: { heads: it } }])", (it) =>
    method(texts, "step", [{ text: { name: "x", heads: it }, tokens: [1] }]),
  );
  await doors.each("step([{ text: { heads: [it] } }])", (it) =>
    method(texts, "step", [{ text: { name: "x", heads: [it] }, tokens: [1] }]),
  );
  await doors.each("evict(it)", (it) => method(texts, "evict", it, recentWindow(), 2));
  await doors.each("evict(text, it)", (it) => method(texts, "evict", text, it, 2));
  await doors.each("evict(text, policy, it)", (it) => method(texts, "evict", text, recentWindow(), it));
  for (const [what, it] of garbage)
    if (it !== undefined) await doors.try(`release(${what})`, () => method(texts, "release", it));
  doors.check();
  // Runs take turns: none of those that were refused is still waited for.
  await texts.step([{ text: texts.add(), tokens: [1] }]);
  texts.release();
});
