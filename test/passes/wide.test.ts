// Operators that stand for several, which the passes make for backends that have kernels for them: on every exported decoder, rewritten, and on decoders
// as they are published, logits and caches are those of the graph as it is, by the reference implementation of what the new nodes stand for.
import { describe, expect, test } from "vitest";
import { type PagedBatch, PagedState } from "../../src/cache/paged-state.js";
import { publishedDecoder, type PublishedForm, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { pageModel } from "../../packages/rewrite/pages-model.js";
import { rewriteIfGrowing } from "../../packages/rewrite/rewrite.js";
import { preparedGraphOf } from "../../src/session/load.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { exportedBytes, exportedDecoders, exportedTolerance } from "../support/exported-decoders.js";
import { largestDifference } from "./support.js";
import { WideSession } from "./wide-session.js";
import { soak } from "../support/soak.js";

const capacity = 24;
const int64 = (values: readonly number[], dims: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), dims);

/** The largest difference between both forms over a prompt, steps and a fork. */
async function differenceOf(model: Uint8Array): Promise<number> {
  const plain = await WideSession.create(model, {
    backend: "reference",
    inPlace: "never",
    graphOptimizationLevel: "disabled",
  });
  const fused = await WideSession.create(model, { backend: "wide", inPlace: "require" });
  const batch = 2;
  const states = [plain, fused].map((session) => session.createState({ dims: { batch, capacity } }));
  let [worst, position] = [0, 0];
  for (const count of [5, 1, 1, 3, 1]) {
    const tokens = Array.from({ length: batch * count }, (_, at) => (7 * at + 3 * position) % 50);
    const positions = Array.from({ length: batch * count }, (_, at) => position + (at % count));
    const given: Record<string, Tensor> = {
      input_ids: int64(tokens, [batch, count]),
      position_ids: int64(positions, [batch, count]),
      attention_mask: int64(
        Array.from({ length: batch * capacity }, (_, at) => (at % capacity < position + count ? 1 : 0)),
        [batch, capacity],
      ),
    };
    const [expected, found] = await Promise.all(
      [plain, fused].map((session, at) => {
        const feeds = Object.fromEntries(Object.entries(given).filter(([name]) => session.inputNames.includes(name)));
        return session.run(feeds, session.outputNames.slice(0, 1), { state: states[at] });
      }),
    );
    worst = Math.max(worst, largestDifference(found, expected));
    position += count;
  }
  expect(states[1].lengths).toEqual(states[0].lengths);
  return worst;
}

/** The same on pages: the reference implementation of the graph as it is beside that of the new nodes, prompts of different lengths and steps. */
async function pagedDifference(model: Uint8Array): Promise<number> {
  const plain = await WideSession.create(model, { backend: "reference", graphOptimizationLevel: "disabled" });
  const fused = await WideSession.create(model, { backend: "wide", inPlace: "require" });
  const [expected, found] = await Promise.all(
    [plain, fused].map(async (session) => {
      const pages = new PagedState(session, { blocks: 12, blockSize: 4 });
      const sequences = [pages.add(), pages.add()];
      const results: Tensor[] = [];
      for (const count of [5, 1, 3, 1]) {
        const reads = sequences.map((sequence, text) => ({
          sequence,
          tokens: Array.from({ length: count }, (_, at) => (7 * at + 3 * sequence.length + text) % 50),
        }));
        const run = ({ state, feeds, tokens, positions }: PagedBatch): Promise<Record<string, Tensor>> => {
          const dims = [tokens.length, count];
          const given: Record<string, Tensor> = {
            ...feeds,
            input_ids: int64(tokens.flat(), dims),
            position_ids: int64(
              tokens.flatMap((each, text) => each.map((_, at) => positions[text] + at)),
              dims,
            ),
            attention_mask: int64(
              tokens.flatMap((_, text) => Array.from({ length: positions[text] + count }, () => 1)),
              [tokens.length, positions[0] + count],
            ),
          };
          const known = Object.entries(given).filter(([name]) => session.inputNames.includes(name));
          return session.run(Object.fromEntries(known), session.outputNames.slice(0, 1), { state });
        };
        results.push(Object.values(await pages.run(reads, run))[0]);
      }
      return Object.fromEntries(results.map((tensor, at) => [`step ${at}`, tensor]));
    }),
  );
  return largestDifference(found, expected);
}

const countOf = (model: Uint8Array, name: string): number =>
  preparedGraphOf(readModel(model), { hasKernel: () => true }).graph.nodes.filter(({ op }) => op.name === name).length;

/** Exported decoders whose two layers do not both have a CachedAttention, and why. */
const fewer: Readonly<Record<string, readonly [count: number, why: string]>> = {
  gpt2_op24: [0, "queries, keys and values are parts of one Gemm over flat rows"],
  gpt2_op18_sdpa: [0, "queries, keys and values are parts of one Gemm over flat rows"],
  gpt_neox_op18_sdpa: [0, "the three are parts of each head"],
  falcon_op18_sdpa: [0, "the three are parts of one product"],
  mistral_op24: [0, "a window written as a mask"],
  gemma2_op18_sdpa: [1, "every other layer has a window written as a mask"],
  gemma2_op24_eager: [1, "every other layer has a window written as a mask"],
  gemma3_op18_sdpa: [0, "windows written as masks"],
  bloom_op18_eager: [0, "positions are a bias of the scores"],
  bloom_op24_eager: [0, "positions are a bias of the scores"],
};

/** Activations are quantized before every product. */
const withoutProjections: ReadonlySet<string> = new Set(["llama_op20_q8"]);

const forms: readonly PublishedForm[] = [
  { type: "float32" },
  { type: "float16", weights: { bits: 4, blockSize: 32 } },
  { type: "float32", headNorms: "none", weights: { bits: 8, blockSize: 16 } },
];

describe("decoders as they are published", () => {
  test.each(forms)("%o", async (form) => {
    const model = writeModel(rewriteIfGrowing(publishedDecoder(smallPublishedSizes, form)));
    // Embedding, and for each layer: queries with keys and values, attention, its output, gate with what it lets through, the way down; logits.
    const { nodes } = preparedGraphOf(readModel(model), { hasKernel: () => true }).graph;
    const { layers } = smallPublishedSizes;
    expect(nodes.filter(({ op }) => op.name === "Projection")).toHaveLength(4 * layers + 1);
    expect(nodes.filter(({ op }) => op.name === "CachedAttention")).toHaveLength(layers);
    expect(nodes.filter(({ op }) => /Normalization|MatMul|Rotary|Scatter|SwiGLU/.test(op.name))).toEqual([]);
    expect(await differenceOf(model)).toBeLessThanOrEqual(form.type === "float16" ? 2e-2 : 1e-5);
  });
});

describe("decoders on pages", () => {
  test.each(forms)("as they are published: %o", async (form) => {
    const model = writeModel(pageModel(rewriteIfGrowing(publishedDecoder(smallPublishedSizes, form))));
    const { layers } = smallPublishedSizes;
    expect(countOf(model, "Projection")).toBe(4 * layers + 1);
    expect(countOf(model, "CachedAttention")).toBe(layers);
    expect(countOf(model, "ScatterPaKvCache")).toBe(0);
    expect(await pagedDifference(model)).toBeLessThanOrEqual(form.type === "float16" ? 2e-2 : 1e-5);
  });

  test.each(exportedDecoders.filter((name, at) => fewer[name] === undefined && (soak || at % 9 === 1)))(
    "%s",
    async (name) => {
      const model = writeModel(pageModel(rewriteIfGrowing(readModel(exportedBytes(name)))));
      expect(countOf(model, "CachedAttention")).toBe(2);
      expect(await pagedDifference(model)).toBeLessThanOrEqual(Math.min(2e-2, exportedTolerance(name)));
    },
  );
});

describe("exported decoders, rewritten", () => {
  test.each(exportedDecoders.filter((_, at) => soak || at % 6 === 0))("%s", async (name) => {
    const model = writeModel(rewriteIfGrowing(readModel(exportedBytes(name))));
    expect(countOf(model, "CachedAttention")).toBe(fewer[name]?.[0] ?? 2);
    expect(countOf(model, "Projection") > 0).toBe(!withoutProjections.has(name));
    expect(await differenceOf(model)).toBeLessThanOrEqual(Math.min(2e-2, exportedTolerance(name)));
  });
});
