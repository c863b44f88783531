// Decoders in the style of published models, made by scripts/published-decoder.mjs: rewritten, they give the logits of the original, in
// insitu and in onnxruntime.
import { describe, expect, test } from "vitest";
import { publishedDecoder } from "../../scripts/published-decoder.mjs";
import { seededRandom } from "../../src/graph/call.js";
import type { Model } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { compareViews } from "../support/compare.js";
import { checkRewrite } from "./check.js";
import { int64 } from "./exports.js";
import { handOver, installed, openPeer, type PeerTensor, takeBack } from "./peer.js";

const make = publishedDecoder as (options: Readonly<Record<string, number | boolean>>) => Uint8Array;

/** Options of the decoder for a seed. */
function optionsFor(seed: number): Record<string, number | boolean> {
  const random = seededRandom(seed);
  const pick = <T>(...list: readonly T[]): T => list[Math.floor(random() * list.length)];
  const keyValueHeads = pick(1, 2, 4);
  return {
    layers: pick(1, 2, 3),
    hidden: pick(32, 64),
    keyValueHeads,
    heads: keyValueHeads * pick(1, 2, 3),
    headSize: pick(16, 32),
    intermediate: pick(64, 96),
    bits: pick(4, 8),
    packed: pick(true, false),
    mask: pick(true, false),
    window: pick(-1, -1, 4),
    half: seed > 4,
    seed,
  };
}

/** Caches of no rows, or of all. */
const cachesOf = ({ graph }: Model, rows: number): Map<string, Tensor> =>
  new Map(
    graph.inputs
      .filter(({ name }) => name.startsWith("past"))
      .map(({ name, type }) => {
        const [, heads, , size] = type?.kind === "tensor" ? type.shape! : [];
        const elementType = (type?.kind === "tensor" ? type.elementType : undefined) ?? "float32";
        return [name, Tensor.fromView(View.allocate(elementType, [2, Number(heads), rows, Number(size)]))];
      }),
  );

const presentOf = (past: string): string => past.replace("past_key_values", "present");

describe.each([1, 2, 3, 4, 5, 6])("published style, seed %i", (seed) => {
  const options = optionsFor(seed);
  const bytes = make(options);
  const model = readModel(bytes);
  const { model: rewritten, report } = rewrite(model);

  test("insitu: the original's logits", async () => {
    expect(report.attentions[0].mask).toBe(options["window"] === 4 ? "causal, window 4" : "causal");
    expect(report.inputs.removed).toEqual(
      options["mask"] === true ? ["attention_mask"] : ["seqlens_k", "total_sequence_length"],
    );
    const given = { model, original: bytes, rewritten: writeModel(rewritten), capacity: undefined, seed };
    const { steps } = await checkRewrite(given);
    const worst = Math.max(...steps.map(({ difference }) => difference));
    expect(worst, JSON.stringify(options)).toBeLessThan(options["half"] === true ? 3e-2 : 2e-4);
    expect(steps.length).toBeGreaterThan(8);
  });

  test.skipIf(!installed)("onnxruntime-node: the original's logits, step by step", async () => {
    const [theirs, ours] = [await openPeer(bytes), await openPeer(writeModel(rewritten))];
    let grown: Map<string, PeerTensor> = new Map(
      [...cachesOf(model, 0)].map(([name, tensor]) => [name, handOver(tensor)]),
    );
    let fixed: Map<string, PeerTensor> = new Map(
      [...cachesOf(model, 24)].map(([name, tensor]) => [name, handOver(tensor)]),
    );
    let length = 0;
    for (const count of [7, 1, 1, 1]) {
      const total = length + count;
      const ids = int64(
        Array.from({ length: 2 * count }, (_, at) => (7 * (at + 3 * length) + seed) % 80),
        [2, count],
      );
      const lengths = {
        seqlens_k: new Tensor("int32", Int32Array.of(total - 1, total - 1), [2]),
        total_sequence_length: new Tensor("int32", Int32Array.of(total), []),
        attention_mask: int64(new Array<number>(2 * total).fill(1), [2, total]),
      };
      const given = Object.entries(lengths).filter(([name]) => theirs.inputNames.includes(name));
      const expected = await theirs.run({
        input_ids: handOver(ids),
        ...Object.fromEntries(given.map(([name, tensor]) => [name, handOver(tensor)])),
        ...Object.fromEntries(grown),
      });
      const rows = Array.from({ length: 2 * count }, (_, at) => length + (at % count));
      const actual = await ours.run({
        input_ids: handOver(ids),
        position_ids: handOver(int64(rows, [2, count])),
        write_indices: handOver(int64([length, length])),
        nonpad_kv_seqlen: handOver(int64([total, total])),
        ...Object.fromEntries(fixed),
      });
      const [a, b] = [actual, expected].map((results) => takeBack(results["logits"]).toView());
      expect(
        compareViews(a, b, { tolerance: options["half"] === true ? 3e-2 : 2e-2 }),
        `context ${total}, ${JSON.stringify(options)}`,
      ).toBe("");
      grown = new Map([...grown.keys()].map((name) => [name, expected[presentOf(name)]]));
      fixed = new Map([...fixed.keys()].map((name) => [name, actual[presentOf(name)]]));
      length = total;
    }
  });
});
