// Exported decoders through the engine, on linear caches and on pages: the logits of their reference runs (PyTorch's, and onnxruntime's for quantised
// ones), one text alone and several of other lengths beside it, in chunks that cut across their prompts.
import { describe, expect, test } from "vitest";
import type { Context } from "../../src/engine/context.js";
import { type DecoderEngine, linearEngine, pagedEngine } from "../../src/engine/decoder-engine.js";
import { pagedSessionOptions } from "../../src/engine/paged-decoder.js";
import { readTokens } from "../../src/engine/pulled-text.js";
import { withPickedRows } from "../../src/decoder/model-changes.js";
import { InferenceSession } from "../../src/entry/node.js";
import { readIntegers, readNumbers } from "../../src/tensor/access.js";
import { bytesOf, models, packedSteps, toleranceOf } from "../rewrite/exports.js";
import { largestDifference } from "../support/compare.js";
import { soak } from "../support/soak.js";

const sample = /^(llama_op24|llama_op24_fp16|llama_op20_q4|mistral_op24|gpt2_op18_sdpa)$/;
const paged = { cacheType: "same", blockSize: 4, blocks: 64 } as const;

/** Positions as biases in a mask: no pages have them. */
const isPageable = (model: string): boolean => !model.startsWith("bloom");

/** How a model is driven. */
const layouts: Readonly<Record<string, (bytes: Uint8Array) => Promise<[InferenceSession, DecoderEngine]>>> = {
  async linear(bytes) {
    const session = await InferenceSession.create(bytes, { threads: 1, rewrite: "auto", change: withPickedRows() });
    return [session, linearEngine(session, { capacity: 64, chunk: 5, sinks: 0 })];
  },
  async packed(bytes) {
    const session = await InferenceSession.create(bytes, { threads: 1, ...pagedSessionOptions(paged, false) });
    return [session, pagedEngine(session, paged, { capacity: 64, chunk: 5, sinks: 0 }, false, {})];
  },
  async apart(bytes) {
    const options = { threads: 1, batchInvariant: true, ...pagedSessionOptions(paged, true) };
    const session = await InferenceSession.create(bytes, options);
    return [session, pagedEngine(session, paged, { capacity: 64, chunk: 5, sinks: 0 }, true, {})];
  },
};

describe.each(models.filter((model) => soak || sample.test(model)))("%s", (model) => {
  test.each(Object.keys(layouts).filter((layout) => layout === "linear" || isPageable(model)))(
    "the logits of its reference runs, %s",
    async (layout) => {
      const [session, own] = await layouts[layout](bytesOf(model));
      let compared = 0;
      for (const run of ["step", "long", "padded"]) {
        const contexts: Context[] = [];
        for (const [number, { ids, counts, logits }] of packedSteps(model, run).entries()) {
          const [batch, length] = ids.dims;
          while (contexts.length < batch) contexts.push(own.open());
          const tokens = readIntegers(ids.toView());
          const parts = contexts.map((context, at) => ({
            context,
            tokens: tokens.slice(at * length, at * length + counts[at]),
          }));
          const made = await readTokens(own.engine, parts, true, () => {});
          for (const [at, row] of made.entries()) {
            const all = Float32Array.from(readNumbers(logits.slice(0, at, at + 1)), Number);
            const expected = all.subarray(all.length - row!.length);
            const scale = Math.max(1, ...expected.map(Math.abs));
            const apart = largestDifference(row!, expected) / scale;
            expect(apart, `${run}${number}, text ${at}`).toBeLessThan(toleranceOf(model));
            compared++;
          }
        }
        for (const context of contexts) context.release();
      }
      expect(compared).toBeGreaterThan(model.startsWith("llama_static") ? -1 : 0);
      await session.release();
    },
  );
});
