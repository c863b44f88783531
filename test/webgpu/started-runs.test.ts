// Runs that are begun before the results of others are there: what a state holds meanwhile, what it costs, and what becomes of it when a run
// is refused or the device goes away.
import { describe, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { Decoder } from "../../src/decoder/decoder.js";
import { LanguageModel } from "../../src/generate/causal-lm.js";
import { hubFolder } from "../generate/support.js";
import { writeModel } from "../../src/onnx/write.js";
import { makeGrammars } from "../../src/entry/make-grammars.js";
import { nodePlatform } from "../../src/platform/node.js";
import type { SessionOptions } from "../../src/session/options.js";
import type { Session } from "../../src/session/session.js";
import type { State } from "../../src/session/state.js";
import { noWebgpu } from "../support/backends.js";
import { largestDifference } from "../support/compare.js";
import { step, tokenAt, tokenFeeds, tokens } from "../support/decoding.js";
import { poison, WatchedSession } from "../support/watched-session.js";
import { DrawnRuns } from "../support/drawn-runs.js";
import { soak } from "../support/soak.js";

const decoder = writeModel(generatedDecoder(smallSizes));
const dims = { batch: 1, capacity: 16 };
const drawing = { temperature: 1, topK: 9, topP: 1, minP: 0, repetitionPenalty: 1.3, seeds: [3], seen: [[1, 2, 5]] };

class LostModel extends LanguageModel {
  static async on(
    folder: string,
    open: (model: string, options: SessionOptions) => Promise<Session>,
  ): Promise<LostModel> {
    const options = { backend: "webgpu", context: 64 } as const;
    return new LostModel(await LanguageModel.prepare(folder, nodePlatform, open, options, makeGrammars));
  }
}

/** Begins a run whose logits are wanted; what they will be. */
async function begin(session: Session, state: State, ids: readonly number[]): Promise<Promise<Float32Array>[]> {
  const { results } = await session.start(tokenFeeds([ids], state.lengths), ["logits"], { state });
  return [results.then(({ logits }) => (logits.data as Float32Array).slice(-smallSizes.vocabulary))];
}

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  test("states are used, rewound, forked, saved and released while runs are under way", async () => {
    const device = await WatchedSession.open(decoder, { inPlace: "require" });
    const host = await InferenceSession.create(decoder, { backend: "reference" });
    const [ours, theirs] = [device.createState({ dims }), host.createState({ dims })];
    poison(ours);
    const results: [Promise<Float32Array>, Float32Array][] = [];
    const both = async (ids: readonly number[], a = ours, b = theirs): Promise<void> => {
      const [actual] = await begin(device, a, ids);
      results.push([actual, await step(host, b, ids)]);
      expect(a.lengths).toEqual(b.lengths);
    };
    await both(tokens(0, 5));
    for (let position = 5; position < 9; position++) await both([tokenAt(position)]);
    const [saving, wanted] = [ours.save(), await theirs.save()];
    for (const state of [ours, theirs]) state.rewind(6);
    const [fork, other] = [ours.fork(), theirs.fork()];
    await both([3]);
    await both([4], fork, other);
    // Refused before it was begun: nothing has changed, and what is under way lands.
    await expect(begin(device, ours, tokens(7, 18))).rejects.toThrow(/capacity|rows/);
    await both([5]);
    await both([6], fork, other);
    fork.release();
    for (const [actual, expected] of results) expect(largestDifference(await actual, expected)).toBeLessThan(2e-5);
    expect((await saving).length).toBe(wanted.length);
    const restored = device.createState({ dims });
    await restored.restore(await saving);
    other.release();
    const again = host.createState({ dims });
    await again.restore(wanted);
    expect(largestDifference(await step(device, restored, [8]), await step(host, again, [8]))).toBeLessThan(2e-5);
    await Promise.all([device.release(), host.release()]);
  });

  test.skipIf(!soak)("a token costs no buffer, no binding and no shader", async () => {
    const session = await WatchedSession.open(decoder, { inPlace: "require" });
    const model = new Decoder(session);
    const state = model.createState(1, 64);
    const drawer = new DrawnRuns(model, drawing);
    const underWay = [await drawer.draw(state, [tokens(0, 3)], [0], 0)];
    let made = 0;
    for (let count = 1; count < 40; count++) {
      underWay.push(await drawer.draw(state, undefined, [2 + count], count));
      if (underWay.length === 3) await underWay.shift()!.tokens;
      if (count === 8) made = session.made.length;
    }
    expect(await Promise.all(underWay.map((run) => run.tokens))).toHaveLength(2);
    expect(session.made.slice(made)).toEqual([]);
    expect(state.lengths).toEqual([42]);
    await session.release();
  });

  test("a device that goes away: every run under way says so, and the state is lost", async () => {
    const session = await WatchedSession.open(decoder);
    const model = new Decoder(session);
    const [state, other] = [model.createState(1, 64), model.createState(1, 64)];
    const drawer = new DrawnRuns(model, drawing);
    await (
      await drawer.draw(state, [tokens(0, 3)], [0], 0)
    ).tokens;
    const underWay = [];
    for (let count = 1; count < 4; count++) underWay.push(await drawer.draw(state, undefined, [2 + count], count));
    session.lose();
    const outcomes = await Promise.allSettled(underWay.map((run) => run.tokens));
    // What the device had done before it went is there; from the first that failed on, nothing is.
    const failed = outcomes.findIndex(({ status }) => status === "rejected");
    expect(outcomes.slice(failed).every(({ status }) => status === "rejected")).toBe(true);
    for (const outcome of outcomes)
      if (outcome.status === "rejected") expect(outcome.reason).toMatchObject({ code: "state-lost" });
    await expect(drawer.draw(state, undefined, [6], 4)).rejects.toMatchObject({
      code: failed < 0 ? "device-lost" : "state-lost",
    });
    if (failed >= 0) expect(() => state.rewind(3)).toThrow(/the state was lost by an earlier run/);
    // A state that no run was writing is not lost, but where it lay is.
    await expect(drawer.draw(other, [tokens(0, 3)], [0], 0)).rejects.toMatchObject({ code: "device-lost" });
    await session.release();
  });

  test.skipIf(!soak)(
    "a device that goes away in the middle of a text: its tokens end, and the next text says so too",
    async () => {
      const folder = hubFolder("llama", { "onnx/model.onnx": decoder, "config.json": { vocab_size: 128 } });
      let session: WatchedSession | undefined;
      const open = async (_: string, options: SessionOptions): Promise<WatchedSession> =>
        (session = await WatchedSession.open(decoder, options));
      const lm = await LostModel.on(folder.path, open);
      let count = 0;
      const run = async (): Promise<void> => {
        for await (const { token } of lm.generate([1, 2, 3], { maxTokens: 40, ignoreEnd: true })) {
          expect(token).toBeLessThan(128);
          if (++count === 5) session!.lose();
        }
      };
      await expect(run()).rejects.toMatchObject({ code: expect.stringMatching(/^(state|device)-lost$/) as string });
      // Those that had come, and those that were under way.
      expect(count).toBeLessThan(20);
      for (let again = 0; again < 2; again++)
        await expect(lm.generate([1, 2, 3], { maxTokens: 4 }).text()).rejects.toMatchObject({
          code: expect.stringMatching(/^(state|device)-lost$/) as string,
        });
      await lm.release();
      folder.remove();
    },
  );

  test.skipIf(!soak)("a token that a device holds is fed to its own session alone", async () => {
    const [one, two] = [await WatchedSession.open(decoder), await WatchedSession.open(decoder)];
    const slot = one.createSlot("input_ids", [1, 1], [0, smallSizes.vocabulary - 1]);
    expect(slot.location).toBe("gpu-buffer");
    const [a, b] = [one, two].map((session) => session.createState({ dims }));
    const feeds = { ...tokenFeeds([[0]], [0]), input_ids: slot };
    await expect(two.run(feeds, { state: b })).rejects.toThrow(/input "input_ids".*is on a device/);
    const { logits } = await one.run(feeds, ["logits"], { state: a });
    expect(logits.dims).toEqual([1, 1, smallSizes.vocabulary]);
    // A slot whose numbers may lie outside of the vocabulary is looked at: the run is right, and waits.
    const wide = one.createSlot("input_ids", [1, 1], [0, smallSizes.vocabulary]);
    const looked = await one.run({ ...tokenFeeds([[0]], [1]), input_ids: wide }, ["logits"], { state: a });
    expect(looked.logits.dims).toEqual([1, 1, smallSizes.vocabulary]);
    expect(one.explain()).toMatch(/input_ids: 8 bytes to the host/);
    expect(a.lengths).toEqual([2]);
    await Promise.all([one.release(), two.release()]);
    expect(slot.location).toBe("none");
  });
});

test("on the host a run that is begun is over", async () => {
  const session = await InferenceSession.create(decoder, { backend: "reference" });
  const state = session.createState({ dims });
  const { results } = await session.start(tokenFeeds([tokens(0, 3)], [0]), ["logits"], { state });
  expect(state.lengths).toEqual([3]);
  expect((await results).logits.dims).toEqual([1, 3, smallSizes.vocabulary]);
  await expect(session.start(tokenFeeds([tokens(3, 40)], [3]), ["logits"], { state })).rejects.toThrow(/capacity|rows/);
  await expect(session.start(tokenFeeds([[1]], [3]), ["logits"], {})).rejects.toThrow("needs options.state");
  await session.release();
});
