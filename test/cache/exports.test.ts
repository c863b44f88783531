// Exported decoders on pages: the logits of their reference runs, plain, long and with prompts of different lengths; what cannot be paged
// is refused by name.
import { describe, expect, test } from "vitest";
import { pageModel } from "../../packages/rewrite/pages-model.js";
import { PagedState } from "../../src/cache/paged-state.js";
import { readModel } from "../../src/onnx/read.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import { readIntegers, readNumbers } from "../../src/tensor/access.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { styledDecoder } from "../rewrite/styles.js";
import { compareViews } from "../support/compare.js";
import { bytesOf, models, packedSteps, toleranceOf } from "../rewrite/exports.js";
import { pagedSession } from "./support.js";
import { soak } from "../support/soak.js";

/** Decoders whose masks are more than causality and a window: positions as biases. */
const biased = ["bloom_op18_eager", "bloom_op24_eager"];

/** One of each kind; all of them in a long run. */
const sample =
  /^(llama_op24|llama_op24_fp16|llama_op20_q4|mistral_op24|gemma2_op18_sdpa|gpt2_op18_sdpa|phi3_op18_sdpa|llama_op17_eager_ts)$/;
const chosen = models.filter((model) => !biased.includes(model) && (soak || sample.test(model)));

for (const model of chosen) {
  describe(model, () => {
    test.each([
      { packed: false, backend: "reference" },
      { packed: true, backend: "reference" },
      { packed: true, backend: "wasm" },
    ] as const)("the reference's logits, in place: %o", async ({ packed, backend }) => {
      const session = await pagedSession(bytesOf(model), { packed }, { backend });
      expect(session.explain({ json: true }).caches.map(({ op, inPlace }) => `${op} ${inPlace}`)).toEqual(
        Array.from({ length: 4 }, () => "ScatterPaKvCache true"),
      );
      for (const run of ["step", "long", "padded"]) {
        const steps = packedSteps(model, run);
        if (steps.length === 0) continue;
        const pages = new PagedState(session, { blocks: 40, blockSize: 4 });
        const [batch] = steps[0].ids.dims;
        const sequences = Array.from({ length: batch }, () => pages.add());
        for (const [number, { ids, counts, logits }] of steps.entries()) {
          const [, length] = ids.dims;
          const tokens = readIntegers(ids.toView());
          const made = await pages.step(
            sequences.map((sequence, at) => ({
              sequence,
              tokens: tokens.slice(at * length, at * length + counts[at]),
            })),
          );
          made.forEach(({ rows }, at) => {
            const expected = logits.slice(0, at, at + 1);
            const [, most, vocabulary] = expected.shape;
            const count = Math.min(most, counts[at], rows.length / vocabulary);
            const actual = new Tensor("float32", rows.slice(-count * vocabulary), [1, count, vocabulary]);
            const tail = expected.slice(1, most - count, most);
            const wanted = new Tensor("float32", Float32Array.from(readNumbers(tail)), [1, count, vocabulary]);
            const text = compareViews(actual.toView(), wanted.toView(), { tolerance: toleranceOf(model) });
            expect(text, `${run}${number}, sample ${at}`).toBe("");
          });
        }
        pages.release();
      }
      if (backend === "wasm") {
        const text = session.explain();
        expect(text).toContain("by pagedPacked");
        expect(text).toContain("none on the reference");
      }
      await session.release();
    });
  });
}

describe("what cannot be paged", () => {
  test.each(biased)("%s has positions in its mask", async (model) => {
    await expect(pagedSession(bytesOf(model), {}, { backend: "reference" })).rejects.toThrow(
      /^Attention ".*" cannot read pages: it reads a mask, ".*": pages know causality and windows as attributes only; rewrite the model as it was exported/,
    );
  });

  test("a window that was written out as a mask", () => {
    const { model } = rewrite(readModel(bytesOf("mistral_op24")), { opset: 24 });
    expect(() => pageModel(model)).toThrow(/it reads a mask, .* with opset 25, where windows are attributes/);
  });

  test("one cache for keys and values", () => {
    const model = readModel(bytesOf("llama_op24"));
    const whole = rewrite(model).model;
    const writes = whole.graph.nodes.filter(({ opType }) => opType === "TensorScatter");
    const [keys, values] = writes.map(({ outputs }) => outputs[0]);
    const nodes = whole.graph.nodes
      .filter((node) => node !== writes[1])
      .map((node) => ({ ...node, inputs: node.inputs.map((name) => (name === values ? keys : name)) }));
    expect(() => pageModel({ ...whole, graph: { ...whole.graph, nodes } })).toThrow(
      /^Attention ".*" cannot read pages: ".*key.*" is both its keys and its values: pages are for two caches/,
    );
  });

  test("a decoder whose caches grow", () => {
    expect(() => pageModel(readModel(bytesOf("qwen3_op23_sdpa")))).toThrow(
      /^Attention "node_scaled_dot_product_attention" cannot read pages: it reads a mask, "expand": /,
    );
    expect(() => pageModel(styledDecoder({ opset: 24, growth: "attention", mask: "none" }))).toThrow(
      /^Attention "Attention_\d+" cannot read pages: its cache grows \("past\.0\.key"\): rewrite it first$/,
    );
  });
});
