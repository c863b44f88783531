// The loads of single operators and of whole decoders: everyone who takes part gives the same result, and the full sizes are those
// that docs/performance.md speaks of. Nothing here depends on how long anything takes. Of the clients, which have processes of their own, the
// tests run every second group, and the soak all.
import { describe, expect, test } from "vitest";
import { attention } from "../../tools/bench/attention.js";
import { attended, attentionFeeds, inPlaceFeeds, inPlaceModel } from "../../tools/bench/attention-work.js";
import { clients } from "../../tools/bench/clients.js";
import { decode } from "../../tools/bench/decode.js";
import { fullDecoder, parameterCount, pastPresentDecoder, tinyDecoder } from "../../tools/bench/decoder-work.js";
import type { Load, Setting } from "../../tools/bench/load.js";
import { matmul } from "../../tools/bench/matmul.js";
import { findPeers } from "../../tools/bench/peers.js";
import { prefill } from "../../tools/bench/prefill.js";
import { runBench } from "../../tools/bench/run.js";
import { copiesOf, farOff, farOnTheWhole, floatsOf, once } from "../../tools/bench/work.js";
import { type DecoderForm, generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { soak } from "../support/soak.js";

const loads: readonly Load[] = [attention, matmul, decode, prefill];
const found = findPeers();
describe.each(loads)("$name", (load) => {
  test("all who take part agree", async () => {
    const report = await runBench([load], { quick: true, repeats: 1, found });
    for (const { name, contestants } of report.loads[0].groups)
      for (const { name: who, problem } of contestants) expect(problem, `${name}: ${who}`).toBeNull();
  });

  test("every installed peer takes part in the first group, and names are unique", () => {
    for (const { name, contestants } of load.groups({
      quick: true,
      peers: found.peers,
      backend: undefined,
      threads: 2,
    }))
      expect(new Set(contestants.map((each) => each.name)).size, name).toBe(contestants.length);
    const [first] = load.groups({ quick: true, peers: found.peers, backend: undefined, threads: 2 });
    expect(first.contestants[0].runtime).toBe("insitu");
    for (const { name } of found.peers) expect(first.contestants.map(({ runtime }) => runtime)).toContain(name);
  });
});

test("clients have processes of their own, in which both runtimes say the same", async () => {
  const tried = {
    ...clients,
    groups: (setting: Setting) => clients.groups(setting).filter((_, at) => soak || at % 2 === 0),
  };
  const report = await runBench([tried], { quick: true, repeats: 1, found });
  const who = ["insitu", ...found.peers.map(({ name }) => name).filter((name) => name === "onnxruntime-node")];
  for (const { name, contestants, failed } of report.loads[0].groups) {
    expect(failed, name).toEqual([]);
    expect(contestants.map(({ runtime }) => runtime)).toEqual(who);
    for (const { name: contestant, problem } of contestants) expect(problem, `${name}: ${contestant}`).toBeNull();
  }
  const full = clients.groups({ quick: false, peers: [], backend: undefined, threads: 2 }).map(({ name }) => name);
  expect(full.join("\n")).toMatch(
    /GroupQueryAttention, at context 400[^]*level 0, at context 400[^]*Concat, at context 400[^]*4096, 125 M parameters/,
  );
});

test("the full sizes are those that are spoken of", () => {
  const full: Setting = { quick: false, peers: [], backend: undefined, threads: 2 };
  const names = loads.flatMap((load) => load.groups(full).map(({ name }) => name));
  for (const part of [
    "float32, 32/8 heads of 128, 4096 valid of 8192",
    "float16, 32/8 heads of 128, 4096 valid of 8192",
    "512 valid of 8192",
    "one row, float32 weights of 4096 × 4096",
    "one row, int8 weights of 4096 × 4096",
    "one row, int4 weights of 4096 × 4096",
    "128 rows, float32 weights of 4096 × 4096",
    "128 rows, int8 weights of 4096 × 4096",
    "128 rows, int4 weights of 4096 × 4096",
    "one token at context 4096, 125 M parameters, 8-bit weights",
    "512 tokens, 125 M parameters, 8-bit weights",
  ])
    expect(
      names.some((name) => name.includes(part)),
      part,
    ).toBe(true);
});

test("parameters are counted as the models have them", () => {
  const { graph } = generatedDecoder(tinyDecoder.sizes);
  const sizes = graph.initializers
    .filter(({ name }) => name.endsWith("weight") || name === "embedding")
    .map(({ dims }) => dims.reduce((count, dim) => count * dim, 1));
  expect(parameterCount(tinyDecoder)).toBe(sizes.reduce((sum, size) => sum + size, 0));
  expect(Math.round(parameterCount(fullDecoder) / 1e6)).toBe(125);
});

test("the form with past and present has the same weights", () => {
  const of = (model: ReturnType<typeof generatedDecoder>): Map<string, unknown> =>
    new Map(model.graph.initializers.map(({ name, data }) => [name, data]));
  const [ours, theirs] = [
    of(generatedDecoder(tinyDecoder.sizes, { weights: { bits: 8, blockSize: 32 } })),
    of(pastPresentDecoder(tinyDecoder)),
  ];
  expect([...theirs.keys()].toSorted()).toEqual([...ours.keys()].toSorted());
  for (const [name, data] of theirs) expect(data, name).toEqual(ours.get(name));
});

test("the plain loops of attention give what the reference implementation gives", async () => {
  for (const type of ["float32", "float16"] as const) {
    const sizes = { type, heads: 6, kvHeads: 2, head: 8, capacity: 12, valid: 7 };
    const feeds = attentionFeeds(sizes);
    const session = await InferenceSession.create(writeModel(inPlaceModel(sizes)), { backend: "reference" });
    const results = await session.run({
      ...inPlaceFeeds(feeds, sizes),
      past_key: feeds.cacheBefore.key,
      past_value: feeds.cacheBefore.value,
    });
    expect(results["present_key"].data).toEqual(feeds.cache.key.data);
    const expected = attended(sizes, feeds);
    const numbers = floatsOf(results["attended"].data);
    expect(farOff(numbers, expected, type === "float32" ? 1e-5 : 5e-3)).toBeUndefined();
    await session.release();
  }
});

const forms: readonly DecoderForm[] = [
  {},
  { caches: "heads" },
  { weights: { bits: 8, blockSize: 32 } },
  { weights: { bits: 8, blockSize: 32 }, caches: "heads" },
  { weights: { bits: 4, blockSize: 16 }, caches: "heads" },
];

/** The logits of a prompt and of two tokens behind it. */
async function logitsOf(form: DecoderForm, backend: "reference" | "wasm"): Promise<Float32Array[]> {
  const session = await InferenceSession.create(writeModel(generatedDecoder(smallSizes, form)), {
    inPlace: "require",
    backend,
  });
  const state = session.createState({ dims: { batch: 1, capacity: 16 } });
  const integers = (values: readonly number[]): Tensor =>
    new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  const logits: Float32Array[] = [];
  for (const tokens of [[3, 1, 4], [1], [5]]) {
    const positions = tokens.map((_, at) => state.lengths[0] + at);
    const feeds = { input_ids: integers(tokens), position_ids: integers(positions) };
    logits.push((await session.run(feeds, { state }))["logits"].data as Float32Array);
  }
  await session.release();
  return logits;
}

test.each(forms)("the generated decoder computes the same on both backends: %j", async (form) => {
  const [slow, fast] = [await logitsOf(form, "reference"), await logitsOf(form, "wasm")];
  slow.forEach((logits, at) => expect(farOnTheWhole(fast[at], logits, 2e-2)).toBeUndefined());
});

test("where heads lie in the caches does not change what a decoder computes", async () => {
  const [rows, heads] = [await logitsOf({}, "reference"), await logitsOf({ caches: "heads" }, "reference")];
  rows.forEach((logits, at) => expect(farOff(heads[at], logits, 1e-6)).toBeUndefined());
});

test("results are compared by their typical size", () => {
  const expected = Float32Array.of(3, -4, 0, 5);
  expect(farOff(Float32Array.of(3, -4, 0.3, 5), expected, 0.1)).toBeUndefined();
  expect(farOff(Float32Array.of(3, -4, 0.5, 5), expected, 0.1)).toBe("is 0.5 at element 2 instead of 0");
  expect(farOff(Float32Array.of(3, NaN, 0, 5), expected, 0.1)).toContain("at element 1");
  expect(farOff(Float32Array.of(3), expected, 0.1)).toBe("has 1 elements instead of 4");
  expect(farOnTheWhole(expected, expected, 0)).toBeUndefined();
  expect(farOnTheWhole(Float32Array.of(3, -4, 1, 5), expected, 0.2)).toBeUndefined();
  expect(farOnTheWhole(Float32Array.of(3, -4, 1, 5), expected, 0.1)).toBe("is off by 14 % of its size");
  expect(farOnTheWhole(Float32Array.of(NaN, 0, 0, 0), expected, 0.1)).toContain("is off by NaN");
});

test("small operands get more copies, and there are always two", () => {
  expect([2 ** 20, 2 ** 24, 2 ** 25, 2 ** 30].map(copiesOf)).toEqual([12, 6, 3, 2]);
});

test("what is made once is made when it is asked for", () => {
  let made = 0;
  const make = once(() => ++made);
  expect(made).toBe(0);
  expect([make(), make(), made]).toEqual([1, 1, 1]);
});
