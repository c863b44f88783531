// Every exported decoder, rewritten: each cache in place, and the logits of the reference runs, plain, long and with prompts of different
// lengths in one batch.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import { compareViews } from "../support/compare.js";
import { checkRewrite } from "./check.js";
import { bytesOf, int64, lastRows, logitsName, models, packedSteps, toleranceOf } from "./exports.js";

const grown = models.filter((model) => !model.includes("static"));

for (const model of grown) {
  describe(model, async () => {
    const { model: rewritten } = rewrite(readModel(bytesOf(model)));
    const session = await InferenceSession.create(writeModel(rewritten), { backend: "reference", inPlace: "require" });

    test("every cache is written in place", () => {
      const { caches } = session.explain({ json: true });
      expect(caches.length).toBe(4);
      for (const cache of caches) expect(cache).toMatchObject({ op: "TensorScatter", inPlace: true });
      expect(session.inputNames).toEqual(
        expect.arrayContaining(["input_ids", "position_ids", "write_indices", "nonpad_kv_seqlen"]),
      );
      expect(session.inputNames).not.toContain("attention_mask");
    });

    for (const run of ["step", "long", "padded"]) {
      const steps = packedSteps(model, run);
      if (steps.length === 0) continue;
      test(`${run}: the reference's logits`, async () => {
        const [batch] = steps[0].ids.dims;
        const state = session.createState({ dims: { batch, capacity: 64 } });
        for (const [number, { ids, positions, counts, logits }] of steps.entries()) {
          const lengths = state.lengths.map((length, sample) => length + counts[sample]);
          const results = await session.run({ input_ids: ids, position_ids: positions }, { state });
          for (const [actual, expected] of lastRows(results[logitsName(session)], counts, logits))
            expect(compareViews(actual, expected, { tolerance: toleranceOf(model) }), `${run}${number}`).toBe("");
          state.rewind(lengths);
        }
        expect(state.statistics.movedBytes).toBe(0);
      });
    }
  });
}

test("lengths of valid tokens may be fed in place of lengths after the write", async () => {
  const { model } = rewrite(readModel(bytesOf("mistral_op24")));
  const session = await InferenceSession.create(writeModel(model), { backend: "reference", inPlace: "require" });
  const [first, second] = packedSteps("mistral_op24", "padded");
  const state = session.createState({ dims: { batch: 2, capacity: 64 } });
  for (const { ids, positions, counts, logits } of [first, second]) {
    const ends = state.lengths.map((length, sample) => length + counts[sample]);
    const feeds = { input_ids: ids, position_ids: positions, nonpad_kv_seqlen: int64(ends) };
    const results = await session.run(feeds, { state });
    expect(state.lengths).toEqual(ends);
    for (const [actual, expected] of lastRows(results["logits"], counts, logits))
      expect(compareViews(actual, expected, { tolerance: 2e-4 })).toBe("");
  }
});

test("llama_static_op24: the original's logits, which reads the whole text each time", async () => {
  const model = readModel(bytesOf("llama_static_op24"));
  const { model: rewritten, report } = rewrite(model);
  expect(report.caches.map(({ from }) => from)).toEqual(report.caches.map(() => "ScatterND"));
  expect(report.capacity).toBe(32);
  const given = { model, original: bytesOf("llama_static_op24"), rewritten: writeModel(rewritten), capacity: 32 };
  const { steps } = await checkRewrite(given);
  expect(steps.map(({ name }) => name)).toContain("batch, sample 2, decode 2");
  expect(Math.max(...steps.map(({ difference }) => difference))).toBeLessThan(2e-4);
});
