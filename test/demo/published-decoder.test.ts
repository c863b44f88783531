// The published decoder made by code: onnxruntime and insitu agree on its logits, prompt first and then token by token, as the file has it
// and as `generate` runs it, whose caches are written in place.
import { describe, expect, test } from "vitest";
import { Decoder } from "../../src/decoder/decoder.js";
import {
  publishedDecoder,
  type PublishedForm,
  type PublishedSizes,
  smallPublishedSizes,
} from "../../tools/demo/published-decoder.js";
import { qwen3 } from "../../tools/demo/published-shapes.js";
import { RandomWeights } from "../../tools/demo/random-weights.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { readNumbers } from "../../src/tensor/access.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { handOver, installed, openPeer, type PeerTensor, takeBack } from "../rewrite/peer.js";

const sizes = smallPublishedSizes;
const bits4 = { bits: 4, blockSize: 32 } as const;
const forms: readonly (readonly [name: string, form: PublishedForm])[] = [
  ["float16", {}],
  ["float16, 4 bits, logits of the last token", { weights: bits4, logits: "last" }],
  [
    "float32, 4 bits with zero points, tied",
    { type: "float32", weights: { ...bits4, zeroPoints: true }, embeddings: "tied" },
  ],
  ["float32, packed, tied", { type: "float32", projections: "packed", embeddings: "tied" }],
  [
    "float32, packed, no norms of heads, 8 bits",
    { type: "float32", projections: "packed", headNorms: "none", weights: { bits: 8, blockSize: 32 } },
  ],
];

const chunks: readonly (readonly number[])[] = [[3, 14, 15, 92, 65], [35], [89], [79], [32]];
type Logits = readonly number[];

const int64 = (values: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);

/** The last token's logits of every chunk, with caches carried by hand. */
async function carried(
  type: "float16" | "float32",
  run: (feeds: Readonly<Record<string, Tensor>>) => Promise<ReadonlyMap<string, Tensor>>,
): Promise<Logits[]> {
  const { layers, keyValueHeads, headSize, vocabulary } = sizes;
  let pasts = new Map(
    Array.from({ length: layers }, (_, layer) => [`${layer}.key`, `${layer}.value`])
      .flat()
      .map((name) => [name, Tensor.fromView(View.allocate(type, [1, keyValueHeads, 0, headSize]))]),
  );
  let length = 0;
  const all: Logits[] = [];
  for (const chunk of chunks) {
    length += chunk.length;
    const results = await run({
      input_ids: int64(chunk),
      attention_mask: int64(Array.from({ length }, () => 1)),
      ...Object.fromEntries([...pasts].map(([name, tensor]) => [`past_key_values.${name}`, tensor])),
    });
    pasts = new Map([...pasts.keys()].map((name) => [name, results.get(`present.${name}`)!]));
    all.push(Array.from(readNumbers(results.get("logits")!.toView()) as Float32Array).slice(-vocabulary));
  }
  return all;
}

async function byInsitu(
  model: Uint8Array,
  type: "float16" | "float32",
  backend: "reference" | "wasm",
): Promise<Logits[]> {
  const session = await InferenceSession.create(model, { backend });
  const all = await carried(type, async (feeds) => new Map(Object.entries(await session.run(feeds))));
  await session.release();
  return all;
}

/** As `generate` runs it. */
async function byDecoder(model: Uint8Array, backend: "reference" | "wasm"): Promise<Logits[]> {
  const session = await InferenceSession.create(model, { backend, rewrite: "auto", inPlace: "require" });
  const decoder = new Decoder(session);
  const state = decoder.createState(1, 32);
  const all: Logits[] = [];
  let length = 0;
  for (const chunk of chunks) {
    const logits = await decoder.run(state, { tokens: [chunk], positions: [length] });
    all.push(Array.from(logits.at(0)));
    length += chunk.length;
  }
  await session.release();
  return all;
}

function expectClose(got: readonly Logits[], expected: readonly Logits[], type: "float16" | "float32"): void {
  const tolerance = type === "float16" ? 3e-2 : 2e-4;
  got.forEach((logits, step) => {
    expect(Math.max(...logits.map((logit, at) => Math.abs(logit - expected[step][at]))), `step ${step}`).toBeLessThan(
      tolerance,
    );
  });
}

describe.each(forms)("%s", (_, form) => {
  const type = form.type ?? "float16";
  const model = writeModel(publishedDecoder(sizes, form));
  const truth = byInsitu(model, type, "reference");

  test("insitu: compiled, and with caches in place", async () => {
    const expected = await truth;
    const flat = expected.flat();
    expect(flat.every(Number.isFinite)).toBe(true);
    expect(Math.max(...flat)).toBeGreaterThan(0.5);
    expectClose(await byInsitu(model, type, "wasm"), expected, type);
    expectClose(await byDecoder(model, "wasm"), expected, type);
    expectClose(await byDecoder(model, "reference"), expected, type);
  });

  test.skipIf(!installed)("onnxruntime-node", async () => {
    const session = await openPeer(model);
    const theirs = await carried(type, async (feeds) => {
      const given = Object.entries(feeds).map(([name, tensor]) => [name, handOver(tensor)]);
      const results = await session.run(Object.fromEntries(given) as Record<string, PeerTensor>);
      return new Map(Object.entries(results).map(([name, tensor]) => [name, takeBack(tensor)]));
    });
    await session.release();
    expectClose(await truth, theirs, type);
  });
});

test("random values have the mean square that was asked for, in both types", () => {
  for (const type of ["float16", "float32"] as const) {
    const { data, dims } = new RandomWeights(1).values("w", type, [300, 100], 0.03);
    const numbers = Array.from(readNumbers(new View(type, dims, data!)) as Float32Array);
    const mean = numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
    const square = Math.sqrt(numbers.reduce((sum, each) => sum + each * each, 0) / numbers.length);
    expect(Math.abs(mean)).toBeLessThan(1e-3);
    expect(square).toBeGreaterThan(0.03 / Math.SQRT2);
    expect(square).toBeLessThan(0.03 * Math.SQRT2);
    expect(new Set(numbers).size).toBeGreaterThan(1000);
  }
});

test("weights of 4 bits lie evenly around the middle, each value but the least about as often", () => {
  const counts = new Array<number>(16).fill(0);
  const { data } = new RandomWeights(1).blocks("w", [100, 100, 16], 4);
  for (const byte of data as Uint8Array) for (const nibble of [byte & 15, byte >> 4]) counts[nibble]++;
  const all = 2 * (data as Uint8Array).length;
  const mean = counts.reduce((sum, count, value) => sum + count * value, 0) / all;
  expect(Math.abs(mean - 8)).toBeLessThan(0.05);
  expect(counts[0]).toBe(0);
  for (const [value, count] of counts.entries())
    if (value > 0) expect(count / all, `${value}`).toBeCloseTo(value === 8 ? 2 / 16 : 1 / 16, 2);
});

test("every layer of Qwen3's shape leaves its rows finite and of about the same size", async () => {
  const deep: PublishedSizes = {
    ...qwen3.sizes,
    layers: 28,
    hidden: 128,
    intermediate: 384,
    headSize: 32,
    vocabulary: 128,
    positions: 32,
  };
  for (const weights of ["plain", bits4] as const) {
    const [logits] = await byDecoder(writeModel(publishedDecoder(deep, { weights })), "wasm");
    const size = Math.sqrt(logits.reduce((sum, each) => sum + each * each, 0) / logits.length);
    expect(size).toBeGreaterThan(0.3);
    expect(size).toBeLessThan(3);
  }
});
