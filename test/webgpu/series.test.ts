// Runs that are begun at once: each does what it does alone, beside the reference backend run by run; the device is asked once; and where one of them is
// refused, none was done.
import { afterEach, describe, expect, test } from "vitest";
import { submitting } from "../../src/webgpu-kernels/tuning.js";
import { roomFor } from "../../src/backends/webgpu/landing.js";
import { Decoder } from "../../src/decoder/decoder.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { initializer, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import type { Session } from "../../src/session/session.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { noWebgpu } from "../support/backends.js";
import { largestDifference } from "../support/compare.js";
import { int64, step, tokenAt, tokenFeeds, tokens } from "../support/decoding.js";
import { poison, WatchedSession } from "../support/watched-session.js";
import { DrawnRuns } from "../support/drawn-runs.js";
import { soak } from "../support/soak.js";

const decoder = writeModel(generatedDecoder(smallSizes));
const capacity = 16;
/** Every Attention reads a mask of rows that is fed. */
const masked = (model: Model): Model => ({
  ...model,
  graph: {
    ...model.graph,
    nodes: [
      node("Unsqueeze", ["attention_mask", "shown.axes"], ["shown"]),
      ...model.graph.nodes.map((each) =>
        each.opType === "Attention"
          ? { ...each, inputs: each.inputs.map((name, at) => (at === 3 ? "shown" : name)) }
          : each,
      ),
    ],
    initializers: [...model.graph.initializers, initializer("shown.axes", "int64", [1n, 2n], [2])],
    inputs: [...model.graph.inputs, value("attention_mask", "bool", ["batch", "capacity"])],
  },
});

type Rows = readonly (readonly number[])[];

/** Samples, and how many runs each series of theirs has. */
const batches: readonly (readonly [samples: number, runs: readonly number[]])[] = [
  [3, [4, 2, 6]],
  ...(soak ? [[1, [2, 3, 5, 1]] as const] : []),
];

/** Begins a series that reads one token of each sample in each run; the logits of each run. */
async function series(session: Session, state: State, runs: Rows): Promise<Promise<readonly Float32Array[]>[]> {
  const feeds = (run: readonly number[], ahead: number): ReturnType<typeof tokenFeeds> =>
    tokenFeeds(
      run.map((token) => [token]),
      state.lengths.map((length) => length + ahead),
    );
  const [first, ...changes] = runs.map(feeds);
  // What is fed as undefined is left out: the state fills it in, for each run anew.
  const omitted = { write_indices: undefined as never, nonpad_kv_seqlen: undefined as never };
  const { results } = await session.startSeries({ ...first, ...omitted }, changes, ["logits"], { state });
  return [results.then((all) => all.map(({ logits }) => logits.data as Float32Array))];
}

/** The same on a host, run by run. */
async function oneByOne(session: Session, state: State, runs: Rows): Promise<Float32Array[]> {
  const all: Float32Array[] = [];
  for (const run of runs) {
    const { logits } = await session.run(
      tokenFeeds(
        run.map((token) => [token]),
        state.lengths,
      ),
      ["logits"],
      { state },
    );
    all.push((logits.data as Float32Array).slice());
  }
  return all;
}

/** Tokens of `count` runs for each of some samples. */
const runsOf = (count: number, samples: number, from = 0): Rows =>
  Array.from({ length: count }, (_, run) => Array.from({ length: samples }, (_, at) => tokenAt(from + run + 5 * at)));

const expectClose = (actual: readonly Float32Array[], expected: readonly Float32Array[]): void => {
  expect(actual).toHaveLength(expected.length);
  actual.forEach((row, run) => expect(largestDifference(row, expected[run]), `run ${run}`).toBeLessThan(2e-5));
};

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  const { fewRuns } = submitting;
  afterEach(() => void Reflect.set(submitting, "fewRuns", fewRuns));

  test.each(batches)(
    "%d samples, series of %j runs, between rewinds, forks and runs by themselves",
    async (batch, counts) => {
      const device = await WatchedSession.open(decoder, { inPlace: "require" });
      const host = await InferenceSession.create(decoder, { backend: "reference" });
      const dims = { batch, capacity };
      let [ours, theirs] = [device.createState({ dims }), host.createState({ dims })];
      poison(ours);
      const results: [Promise<readonly Float32Array[]>, Float32Array[]][] = [];
      const both = async (runs: Rows): Promise<void> => {
        const [actual] = await series(device, ours, runs);
        results.push([actual, await oneByOne(host, theirs, runs)]);
        expect(ours.lengths).toEqual(theirs.lengths);
      };
      await both(runsOf(1, batch));
      for (const count of counts) await both(runsOf(count, batch, count));
      expect(ours.statistics).toEqual({ runs: counts.reduce((sum, count) => sum + count, 1), movedBytes: 0 });
      const back = Array.from({ length: batch }, (_, sample) => 3 + 2 * sample);
      for (const state of [ours, theirs]) state.rewind(back);
      const [fork, other] = [ours.fork(), theirs.fork()];
      // A fork is copied before the first run writes, and what it left is whole.
      await both(runsOf(3, batch, 7));
      [ours, theirs] = [fork, other];
      await both(runsOf(4, batch, 9));
      for (const [actual, expected] of results) expectClose(await actual, expected);
      expect((await ours.save()).length).toBe((await theirs.save()).length);
      await Promise.all([device.release(), host.release()]);
    },
  );

  test.skipIf(!soak)(
    "a series is submitted once on a busy device, and makes nothing, however many runs it has",
    async () => {
      // Every device is taken for a busy one: how much it has done meanwhile is its own affair.
      Reflect.set(submitting, "fewRuns", 0);
      const session = await WatchedSession.open(decoder, { inPlace: "require" }, [
        "createBuffer",
        "createBindGroup",
        "createShaderModule",
        "createCommandEncoder",
      ]);
      const model = new Decoder(session);
      const state = model.createState(1, 64);
      const drawing = { temperature: 0, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1.2, seeds: [3], seen: [[1, 2]] };
      const drawer = new DrawnRuns(model, drawing);
      await (
        await drawer.draw(state, [[5, 6, 7]], [0], 0)
      ).tokens;
      const underWay = [];
      const counts = [2, 2, 3, 16, 5, 9, 13];
      let [made, rows] = [0, 3];
      for (const [at, count] of counts.entries()) {
        underWay.push(await drawer.drawSeries(state, [rows], rows - 2, count));
        rows += count;
        if (at === 0) {
          await underWay[0].runs;
          made = session.made.length;
        }
        if (underWay.length === 3) expect(await underWay.shift()!.runs).toHaveLength(counts[at - 2]);
      }
      await Promise.all(underWay.map(({ runs }) => runs));
      const countOf = (what: string): number => session.made.slice(made).filter((each) => each === what).length;
      expect(["createCommandEncoder", "createBindGroup", "createShaderModule"].map(countOf)).toEqual([6, 0, 0]);
      // What the ids of the second and third series under way land in.
      expect(countOf("createBuffer")).toBeLessThanOrEqual(2);
      expect(state.lengths).toEqual([53]);
      await session.release();
    },
  );

  test("there is room for series of other lengths where that takes little", () => {
    expect([roomFor(1, 8), roomFor(2, 8), roomFor(16, 8), roomFor(20, 8)]).toEqual([8, 128, 128, 160]);
    expect([roomFor(1, 1 << 20), roomFor(2, 1 << 20), roomFor(3, 20_000)]).toEqual([1 << 20, 2 << 20, 60_000]);
    expect([roomFor(1, 0), roomFor(4, 0)]).toEqual([0, 0]);
  });

  test("a run that is refused refuses the series: nothing was written, and the next runs are right", async () => {
    const device = await WatchedSession.open(decoder, { inPlace: "require" });
    const host = await InferenceSession.create(decoder, { backend: "reference" });
    const dims = { batch: 1, capacity };
    const [ours, theirs] = [device.createState({ dims }), host.createState({ dims })];
    expectClose(
      [await step(device, ours, tokens(0, capacity - 2))],
      [await step(host, theirs, tokens(0, capacity - 2))],
    );
    const before = await ours.save();
    await expect(series(device, ours, runsOf(3, 1))).rejects.toThrow(/capacity|rows/);
    // A token that is none, in the last run.
    await expect(series(device, ours, [[3], [smallSizes.vocabulary]])).rejects.toThrow(/input_ids|indices|[Gg]ather/);
    const feeds = tokenFeeds([[1]], [capacity - 2]);
    const start = (change: Parameters<Session["startSeries"]>[0]): Promise<unknown> =>
      device.startSeries(feeds, [change], ["logits"], { state: ours });
    await expect(start({ input_ids: int64([1, 2], [1, 2]) })).rejects.toThrow(/input "input_ids" must be .*first run/);
    await expect(start({ [ours.names[0]]: int64([1], [1, 1]) })).rejects.toThrow(/is no input that a run of a series/);
    await expect(start({ nothing: int64([1], [1, 1]) })).rejects.toThrow(/"nothing" is no input/);
    expect(ours.lengths).toEqual([capacity - 2]);
    expect(await ours.save()).toEqual(before);
    // Nor does a refusal leave anything on the device, however often.
    const refused = async (): Promise<void> => {
      await expect(series(device, ours, runsOf(3, 1))).rejects.toThrow(/capacity|rows/);
      await expect(step(device, ours, [1, 2, 3])).rejects.toThrow(/capacity|rows/);
    };
    await refused();
    const made = device.made.length;
    for (let again = 0; again < 4; again++) await refused();
    expect(device.made.slice(made)).toEqual([]);
    const runs = [[3], [4]];
    const [actual] = await series(device, ours, runs);
    expectClose(await actual, await oneByOne(host, theirs, runs));
    await Promise.all([device.release(), host.release()]);
  });

  test("a mask that is fed shows each run of a series the rows of those before it", async () => {
    const model = writeModel(masked(generatedDecoder(smallSizes)));
    const device = await WatchedSession.open(model, { inPlace: "require" });
    const host = await InferenceSession.create(model, { backend: "reference" });
    const decoding = new Decoder(device);
    const ours = decoding.createState(1, capacity);
    poison(ours);
    const drawing = { temperature: 0, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1, seeds: [1], seen: [[]] };
    const drawer = new DrawnRuns(decoding, drawing);
    const prompt = [5, 6, 7];
    const drawn = [...(await (await drawer.draw(ours, [prompt], [0], 0)).tokens)];
    for (const [position, count] of [
      [3, 4],
      [7, 6],
    ])
      drawn.push(...(await (await drawer.drawSeries(ours, [position], position - 2, count)).runs).flat());
    const theirs = host.createState({ dims: { batch: 1, capacity } });
    const expected: number[] = [];
    for (let read: readonly number[] = prompt, rows = 0; expected.length < drawn.length;) {
      const shown = Uint8Array.from({ length: capacity }, (_, row) => Number(row < rows + read.length));
      const attention_mask = new Tensor("bool", shown, [1, capacity]);
      const { logits } = await host.run({ ...tokenFeeds([read], [rows]), attention_mask }, ["logits"], {
        state: theirs,
      });
      const last = (logits.data as Float32Array).slice(-smallSizes.vocabulary);
      rows += read.length;
      read = [last.indexOf(Math.max(...last))];
      expected.push(read[0]);
    }
    expect(drawn).toEqual(expected);
    await Promise.all([device.release(), host.release()]);
  });

  test.skipIf(!soak)("a program that the host has to wait for runs once for each all the same", async () => {
    const device = await WatchedSession.open(decoder);
    const host = await InferenceSession.create(decoder, { backend: "reference" });
    const dims = { batch: 1, capacity };
    const [ours, theirs] = [device.createState({ dims }), host.createState({ dims })];
    // Numbers that may lie outside of the vocabulary are looked at before they are used.
    const slot = device.createSlot("input_ids", [1, 1], [0, smallSizes.vocabulary]);
    const feeds = (position: number): ReturnType<typeof tokenFeeds> => ({
      ...tokenFeeds([[0]], [position]),
      input_ids: slot,
    });
    const { results } = await device.startSeries(feeds(0), [feeds(1), feeds(2)], ["logits"], { state: ours });
    const actual = (await results).map(({ logits }) => logits.data as Float32Array);
    expectClose(actual, await oneByOne(host, theirs, [[0], [0], [0]]));
    expect(ours.lengths).toEqual([3]);
    // What was written before a run was refused cannot be taken back.
    await expect(step(device, ours, tokens(3, capacity - 1))).resolves.toBeDefined();
    const { results: lost } = await device
      .startSeries(feeds(capacity - 1), [feeds(capacity)], ["logits"], { state: ours })
      .catch((error: unknown) => ({ results: Promise.reject(error as Error) }));
    await expect(lost).rejects.toMatchObject({
      code: "state-lost",
      message: expect.stringContaining("run 2 of 2") as string,
    });
    expect(() => ours.rewind(0)).toThrow(/the state was lost/);
    await Promise.all([device.release(), host.release()]);
  });

  test.skipIf(!soak)("a device that goes away loses the state", async () => {
    const session = await WatchedSession.open(decoder);
    const state = session.createState({ dims: { batch: 1, capacity } });
    await step(session, state, [1, 2]);
    const [results] = await series(session, state, runsOf(4, 1));
    session.lose();
    const [outcome] = await Promise.allSettled([results]);
    if (outcome.status === "rejected") {
      expect(outcome.reason).toMatchObject({ code: "state-lost" });
      expect(() => state.rewind(1)).toThrow(/the state was lost by an earlier run/);
    }
    await expect(series(session, state, runsOf(2, 1))).rejects.toMatchObject({
      code: outcome.status === "rejected" ? "state-lost" : "device-lost",
    });
    await session.release();
  });
});

test.each(["reference", "wasm"] as const)("on %s a series is so many runs", async (backend) => {
  const [together, alone] = [
    await InferenceSession.create(decoder, { backend, inPlace: "require" }),
    await InferenceSession.create(decoder, { backend: "reference" }),
  ];
  const dims = { batch: 2, capacity };
  const [ours, theirs] = [together.createState({ dims }), alone.createState({ dims })];
  for (const count of [3, 1, 5]) {
    const [actual] = await series(together, ours, runsOf(count, 2, count));
    expectClose(await actual, await oneByOne(alone, theirs, runsOf(count, 2, count)));
  }
  expect(ours.lengths).toEqual([9, 9]);
  // One that is refused is refused with all that were begun with it.
  await expect(series(together, ours, runsOf(9, 2))).rejects.toThrow(/capacity|rows/);
  expect(ours.lengths).toEqual([9, 9]);
  const [actual] = await series(together, ours, runsOf(2, 2));
  expectClose(await actual, await oneByOne(alone, theirs, runsOf(2, 2)));
  await expect(together.startSeries(tokenFeeds([[1]], [0]), {} as [], ["logits"], { state: ours })).rejects.toThrow(
    "what changes in a series must be a list",
  );
  await Promise.all([together.release(), alone.release()]);
});
