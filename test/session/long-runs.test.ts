// A run that is long lets others have the thread between its steps: timers tick, other runs wait for their turn, and each gets what it
// would get alone. Ticks are counted, nothing is timed: the runs are long enough on any machine.
import { expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { int64, tokenFeeds, tokens } from "../support/decoding.js";

const sizes = { ...smallSizes, layers: 3, hidden: 256, headSize: 64, intermediate: 1024 };
const model = writeModel(generatedDecoder(sizes));
const create = (threads: number): Promise<InferenceSession> =>
  InferenceSession.create(model, { backend: "wasm", threads });
const options = { dims: { batch: 1, capacity: 1024 } };
const prompt = tokens(0, 700);

/** Counts how often the event loop comes round until `run` is done. */
async function ticksDuring(run: Promise<unknown>): Promise<number> {
  let [ticks, isOver] = [0, false];
  const tick = (): void => {
    ticks++;
    if (!isOver) setImmediate(tick);
  };
  setImmediate(tick);
  await run;
  isOver = true;
  return ticks;
}

const logitsOf = async (run: ReturnType<InferenceSession["run"]>): Promise<Float32Array> =>
  ((await run)["logits"].data as Float32Array).slice(-sizes.vocabulary);

for (const threads of [1, 2])
  test(`the event loop goes round during a prefill, threads ${threads}`, async () => {
    const session = await create(threads);
    const states = [0, 1].map(() => session.createState(options));
    // The first run records its steps, the second repeats them.
    for (const state of states)
      expect(await ticksDuring(session.run(tokenFeeds([prompt], [0]), { state }))).toBeGreaterThan(2);
    for (const state of states) expect(state.lengths).toEqual([prompt.length]);
    await session.release();
  });

test("runs that are asked for meanwhile take their turns, on what they were fed", async () => {
  const session = await create(2);
  const prompts = [prompt, tokens(50, 300), tokens(9, 10), tokens(100, 500)];
  const alone: Float32Array[] = [];
  for (const each of prompts) {
    const state = session.createState(options);
    alone.push(await logitsOf(session.run(tokenFeeds([each], [0]), { state })));
    state.release();
  }
  const order: number[] = [];
  const states = prompts.map(() => session.createState(options));
  const runs = prompts.map(async (each, at) => {
    const feeds = tokenFeeds([each], [0]);
    const run = session.run(feeds, { state: states[at] });
    for (const { data } of Object.values(feeds)) (data as BigInt64Array).fill(1n);
    const logits = await logitsOf(run);
    order.push(at);
    return logits;
  });
  await expect(session.run(tokenFeeds([[1]], [0]), { state: states[0] })).rejects.toThrow(/in use by a run/);
  expect(() => states[0].rewind(0)).toThrow(/in use by a run/);
  expect(await Promise.all(runs)).toEqual(alone);
  expect(order).toEqual([0, 1, 2, 3]);
  await session.release();
});

test("more shapes than programs are kept for, all at once", async () => {
  const session = await create(2);
  const lengths = Array.from({ length: 40 }, (_, at) => (at === 0 ? 700 : at));
  const run = async (length: number): Promise<Float32Array> => {
    const state = session.createState({ dims: { batch: 1, capacity: 704 } });
    const logits = await logitsOf(session.run(tokenFeeds([tokens(0, length)], [0]), { state }));
    state.release();
    return logits;
  };
  const together = await Promise.all(lengths.map(run));
  for (const [at, length] of lengths.entries()) if (at % 8 < 2) expect(together[at]).toEqual(await run(length));
  await session.release();
});

test("a feed that lies in a state's cache is read before the caller can change it", async () => {
  const session = await create(2);
  const state = session.createState(options);
  await session.run(tokenFeeds([tokens(0, 20)], [0]), { state });
  const caches = Object.fromEntries(state.names.map((name) => [name, state.get(name)]));
  const feeds = {
    ...tokenFeeds([tokens(20, 400)], [20]),
    ...caches,
    write_indices: int64([20]),
    nonpad_kv_seqlen: int64([400]),
  };
  const alone = await logitsOf(session.run(feeds, ["logits"]));
  const first = session.run(tokenFeeds([prompt], [0]), { state: session.createState(options) });
  const runs = [logitsOf(session.run(feeds, ["logits"])), logitsOf(session.run(feeds, ["logits"]))];
  for (const name of state.names) (state.get(name).data as Float32Array).fill(Number.NaN);
  await first;
  for (const run of runs) expect(await run).toEqual(alone);
  await session.release();
});

test("a session that is released in the middle of a run finishes it first", async () => {
  const alone = await create(2);
  const expected = await logitsOf(alone.run(tokenFeeds([prompt], [0]), { state: alone.createState(options) }));
  const session = await create(2);
  const run = session.run(tokenFeeds([prompt], [0]), { state: session.createState(options) });
  await session.release();
  await expect(session.run({}, {})).rejects.toThrow(/released/);
  const other = await create(2);
  const taken = other.createState(options);
  expect(await logitsOf(run)).toEqual(expected);
  taken.release();
  await Promise.all([alone.release(), other.release()]);
});
