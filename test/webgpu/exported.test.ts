// Exported decoders on a GPU with their caches in place: rewritten, plain, long and padded, against the logits that were recorded, and on pages
// against WASM. Spare rows hold NaN. One model in the tests, all of them in the soak; as they were exported they run in test/models.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Decoder } from "../../src/decoder/decoder.js";
import { PagedState } from "../../src/cache/paged-state.js";
import { pages } from "../../src/cache/pages.js";
import { withDrawnTokens, withPickedRows } from "../../src/decoder/model-changes.js";
import { InferenceSession } from "../../src/entry/node.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import type { State } from "../../src/session/state.js";
import { writeNumbers } from "../../src/tensor/access.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { bytesOf, lastRows, logitsName, models, packedSteps, toleranceOf } from "../rewrite/exports.js";
import { noWebgpu } from "../support/backends.js";
import { compareViews, largestDifference } from "../support/compare.js";
import { keepDevice } from "../support/device.js";
import { DrawnRuns } from "../support/drawn-runs.js";
import { soak } from "../support/soak.js";

const grown = models.filter((model) => !model.includes("static"));
const tested = soak ? grown : grown.filter((model) => model === "mistral_op24");

/** Rows that nothing was written to hold NaN: whoever reads one shows it. */
function poison(state: State): void {
  for (const name of state.names) {
    const { type, dims } = state.get(name);
    const view = View.allocate(type, dims);
    writeNumbers(view, new Float64Array(view.size).fill(NaN));
    state.set(name, Tensor.fromView(view));
  }
}

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  test.each(tested)("%s, rewritten", async (model) => {
    const { model: rewritten } = rewrite(readModel(bytesOf(model)));
    const session = await InferenceSession.create(writeModel(rewritten), { backend: "webgpu", inPlace: "require" });
    for (const run of soak ? ["step", "long", "padded"] : ["padded"]) {
      const steps = packedSteps(model, run);
      if (steps.length === 0) continue;
      const state = session.createState({ dims: { batch: steps[0].ids.dims[0], capacity: 64 } });
      poison(state);
      for (const [number, { ids, positions, counts, logits }] of steps.entries()) {
        const lengths = state.lengths.map((length, sample) => length + counts[sample]);
        const results = await session.run({ input_ids: ids, position_ids: positions }, { state });
        for (const [actual, expected] of lastRows(results[logitsName(session)], counts, logits))
          expect(compareViews(actual, expected, { tolerance: toleranceOf(model) }), `${run}${number}`).toBe("");
        state.rewind(lengths);
      }
      expect(state.statistics.movedBytes).toBe(0);
    }
    await session.release();
  });

  test.each(tested)("%s, its likeliest tokens in series, beside a loop on WASM", async (model) => {
    const device = await InferenceSession.create(bytesOf(model), {
      backend: "webgpu",
      rewrite: "auto",
      inPlace: "require",
      change: withDrawnTokens(withPickedRows()),
    });
    const decoder = new Decoder(device);
    const state = decoder.createState(1, 64);
    poison(state);
    const drawing = { temperature: 0, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1, seeds: [1], seen: [[]] };
    const drawer = new DrawnRuns(decoder, drawing);
    const prompt = [3, 1, 4, 1, 5];
    const drawn = [...(await (await drawer.draw(state, [prompt], [0], 0)).tokens)];
    for (const count of [3, 5]) {
      const [rows] = state.lengths;
      drawn.push(...(await (await drawer.drawSeries(state, [rows], drawn.length, count)).runs).flat());
    }
    const host = await InferenceSession.create(bytesOf(model), { backend: "wasm", rewrite: "auto" });
    const theirs = new Decoder(host);
    const own = theirs.createState(1, 64);
    const expected: number[] = [];
    for (let read: readonly number[] = prompt; expected.length < drawn.length;) {
      const row = (await theirs.run(own, { tokens: [read], positions: own.lengths, keep: 1 })).at(0);
      read = [row.indexOf(Math.max(...row))];
      expected.push(read[0]);
    }
    expect(drawn).toEqual(expected);
    await Promise.all([device.release(), host.release()]);
  });

  // Pages know no masks, on any backend: ALiBi is one.
  const paged = grown.filter((model) => !model.startsWith("bloom"));
  test.each(soak ? paged : [])("%s, on pages, padded and packed", async (model) => {
    const read = async (backend: "webgpu" | "wasm" | "reference", options = {}): Promise<Float32Array[]> => {
      const session = await InferenceSession.create(bytesOf(model), { backend, change: pages(options) });
      const state = new PagedState(session, { blocks: 12, blockSize: 4 });
      const [one, two] = [state.add("one"), state.add("two")];
      const seen: Float32Array[] = [];
      const take = async (entries: Parameters<PagedState["step"]>[0]): Promise<void> => {
        for (const { last } of await state.step(entries)) seen.push(last.slice());
      };
      await take([
        { sequence: one, tokens: [3, 1, 4, 1, 5, 9, 2] },
        { sequence: two, tokens: [2, 7] },
      ]);
      await take([
        { sequence: one, tokens: [8] },
        { sequence: two, tokens: [2, 7, 1, 8, 2, 8] },
      ]);
      for (const token of [6, 5, 3])
        await take([
          { sequence: one, tokens: [token] },
          { sequence: two, tokens: [token + 1] },
        ]);
      await session.release();
      return seen;
    };
    const theirs = await read("wasm");
    for (const packed of [false, true]) {
      const ours = await read("webgpu", { packed });
      expect(ours).toHaveLength(10);
      ours.forEach((row, at) => expect(largestDifference(row, theirs[at])).toBeLessThan(toleranceOf(model)));
    }
  });
});
