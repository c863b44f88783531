// Attention's windows count rows, and masks have a column for each: rows are taken out, or written over, only where both still see what
// they would see by position.
import { expect, test } from "vitest";
import { EvictingState } from "../../packages/eviction/evicting-state.js";
import { recentWindow } from "../../src/cache/eviction.js";
import { PagedState } from "../../src/cache/paged-state.js";
import { PerHeadState } from "../../packages/eviction/per-head-state.js";
import type { Sequence } from "../../src/cache/sequence.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import type { Context } from "../../src/engine/context.js";
import { type DecoderEngine, linearEngine, pagedEngine } from "../../src/engine/decoder-engine.js";
import { readTokens } from "../../src/engine/pulled-text.js";
import { attributes, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { maskedLogits } from "./masked.js";
import { decoderBytes, distance, pagedSession } from "./support.js";

const positionsOf = (sequence: Sequence): number[] =>
  Array.from({ length: sequence.length }, (_, row) => sequence.positionOf(row));

const windowBytes = (window: number): Uint8Array => {
  const model = generatedDecoder(smallSizes);
  const nodes = model.graph.nodes.map((node) =>
    node.opType === "Attention"
      ? { ...node, attributes: new Map([...node.attributes, ...attributes({ left_window_size: window - 1 })]) }
      : node,
  );
  return writeModel({ ...model, opsets: new Map([["", 25]]), graph: { ...model.graph, nodes } });
};
const text = Array.from({ length: 60 }, (_, at) => (at * 37) % 128);

test.each([1, 3, 9, 13])("a window of %i rows is left whole, and sees what it saw", async (window) => {
  const session = await pagedSession(windowBytes(window));
  const pages = new PagedState(session, { blocks: 32, blockSize: 4 });
  const sequence = pages.add();
  const [visible, logits]: [number[][], Float32Array[]] = [[], []];
  for (const token of text) {
    if (sequence.length === 40) await pages.evict(sequence, recentWindow({ sinks: 4 }), { budget: 16 });
    const [{ last }] = await pages.step([{ sequence, tokens: [token] }]);
    logits.push(last.slice());
    visible.push(positionsOf(sequence));
  }
  expect(sequence.length).toBeLessThan(text.length);
  const expected = await maskedLogits(windowBytes(window), text, visible);
  expect(Math.max(...logits.map((row, at) => distance(row, expected[at])))).toBeLessThan(1e-4);
  await session.release();
});

test("rows inside a window are not evicted, on pages, of heads, and in linear caches", async () => {
  const session = await pagedSession(windowBytes(30));
  const pages = new PagedState(session, { blocks: 32, blockSize: 4 });
  const sequence = pages.add("one");
  await pages.step([{ sequence, tokens: text }]);
  const refused =
    /has a window of 30 rows, and a gap among the latest 1\d would .* keep at least the latest 29 positions/;
  await expect(pages.evict(sequence, recentWindow({ sinks: 4 }), { budget: 16 })).rejects.toThrow(refused);
  expect(sequence.length).toBe(60);
  // Without sinks there is no gap: all that is left is the latest.
  await pages.evict(sequence.fork(), recentWindow({ sinks: 0 }), { budget: 16 });
  await pages.evict(sequence, recentWindow({ sinks: 4 }), { budget: 36 });
  sequence.truncate(sequence.length - 8);
  await expect(pages.step([{ sequence, tokens: [1] }])).rejects.toThrow(/a gap among the latest 2\d would/);
  await session.release();
  const perHead = await pagedSession(windowBytes(30), { perHead: true });
  const heads = new PerHeadState(perHead, { blocks: 64, blockSize: 4 });
  const one = heads.add("one");
  await heads.step([{ text: one, tokens: text }]);
  await expect(heads.evict(one, recentWindow({ sinks: 4 }), 16)).rejects.toThrow(refused);
  await perHead.release();
  const linear = await InferenceSession.create(windowBytes(30));
  const state = new EvictingState(linear, { capacity: 16, policy: recentWindow({ sinks: 4 }) });
  await expect(state.step(text)).rejects.toThrow(refused);
  expect(state.length).toBe(16);
  await linear.release();
});

test("a mask over rows is a reason to refuse", async () => {
  const session = await InferenceSession.create(decoderBytes(), {
    change: (model) => ({
      ...model,
      graph: {
        ...model.graph,
        nodes: model.graph.nodes.map((node) =>
          node.opType === "Attention"
            ? { ...node, inputs: node.inputs.map((name, at) => (at === 3 ? "m" : name)) }
            : node,
        ),
        inputs: [...model.graph.inputs, value("m", "bool", [1, 1, "sequence", "capacity"])],
      },
    }),
  });
  expect(() => new EvictingState(session, { capacity: 16, policy: recentWindow() })).toThrow(
    '"layer.0.attention" reads a mask with a column for each row: its rows cannot be evicted',
  );
  await session.release();
});

test.each(["linear", "paged"] as const)("a context that slides reads its latest tokens again: %s", async (cache) => {
  const session = await (cache === "linear" ? InferenceSession.create(windowBytes(5)) : pagedSession(windowBytes(5)));
  const options = { cacheType: "same", blockSize: 4, blocks: 64 } as const;
  const engineOf = (capacity: number, chunk: number): DecoderEngine => {
    const reading = { capacity, chunk, sinks: 2 };
    return cache === "linear" ? linearEngine(session, reading) : pagedEngine(session, options, reading, false, {});
  };
  const [sliding, whole] = [engineOf(16, 5), engineOf(40, 40)];
  const extend = async ({ engine }: DecoderEngine, own: Context, tokens: readonly number[]): Promise<Float32Array> =>
    (await readTokens(engine, [{ context: own, tokens }], true, () => {}))[0]!;
  const context = sliding.open();
  let kept: number[] = [];
  for (const token of text.slice(0, 40)) {
    // When full: the sinks, and half of the others.
    if (kept.length === 16) kept = [...kept.slice(0, 2), ...kept.slice(-7)];
    kept.push(token);
    const row = await extend(sliding, context, [token]);
    const fresh = whole.open();
    expect(distance(row, await extend(whole, fresh, kept))).toBeLessThan(1e-4);
    fresh.release();
  }
  context.release();
  await session.release();
});
