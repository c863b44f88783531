// A state's caches: written in place by each run, never moved, and what can be done with them between runs.
import { describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { smallSizes } from "../../tools/demo/decoder.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { distance } from "../support/compare.js";
import { decoderSession, int64, step, tokenAt, tokenFeeds, tokens } from "../support/decoding.js";

const capacity = 48;
const dims = { batch: 1, capacity };

describe("the pattern of the ONNX document", () => {
  test("the same graph serves prefill and decode, in place equals copying, bit for bit", async () => {
    const [required, never] = [
      await decoderSession({ inPlace: "require" }),
      await decoderSession({ inPlace: "never" }),
    ];
    const [shared, copied] = [required.createState({ dims }), never.createState({ dims })];
    expect(await step(required, shared, tokens(0, 7))).toEqual(await step(never, copied, tokens(0, 7)));
    for (let position = 7; position < 30; position++) {
      expect(await step(required, shared, [tokenAt(position)])).toEqual(await step(never, copied, [tokenAt(position)]));
    }
    for (const name of shared.names) expect(shared.get(name).data).toEqual(copied.get(name).data);
    expect(shared.lengths).toEqual([30]);
    expect(shared.statistics.movedBytes).toBe(0);
    expect(copied.statistics.movedBytes).toBe(24 * copied.byteLength);
  });

  test("one pass over a prompt equals token by token", async () => {
    const session = await decoderSession();
    const [once, slowly] = [session.createState({ dims }), session.createState({ dims })];
    const whole = await step(session, once, tokens(0, 12));
    let last: Float32Array = new Float32Array();
    for (let position = 0; position < 12; position++) last = await step(session, slowly, [tokenAt(position)]);
    expect(distance(last, whole)).toBeLessThan(1e-5);
  });

  test("a thousand decode steps allocate no tensor memory, the caches never move, untouched rows stay as they are", async () => {
    const session = await decoderSession({ inPlace: "require" });
    const long = 1_100;
    const state = session.createState({ dims: { batch: 1, capacity: long } });
    for (const name of state.names) (state.get(name).data as Float32Array).fill(-7.5);
    const buffers = state.names.map((name) => (state.get(name).data as Float32Array).buffer);
    const logits = new Tensor("float32", new Float32Array(smallSizes.vocabulary), [1, 1, smallSizes.vocabulary]);
    const one = async (position: number): Promise<void> => {
      await session.run(tokenFeeds([[tokenAt(position)]], [position]), { logits }, { state });
    };
    for (let position = 0; position < 20; position++) await one(position);
    const { allocations } = session.memory;
    const before = process.memoryUsage().arrayBuffers;
    for (let position = 20; position < 1_020; position++) await one(position);
    expect(session.memory.allocations).toBe(allocations);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8 * 2 ** 20);
    expect(state.names.map((name) => (state.get(name).data as Float32Array).buffer)).toEqual(buffers);
    expect(state.lengths).toEqual([1_020]);
    const width = smallSizes.keyValueHeads * smallSizes.headSize;
    for (const name of state.names) {
      const rows = state.get(name).data as Float32Array;
      expect(rows.subarray(0, 1_020 * width).includes(-7.5)).toBe(false);
      expect(rows.subarray(1_020 * width).every((value) => value === -7.5)).toBe(true);
    }
  });

  test("samples of one batch have lengths of their own", async () => {
    const session = await decoderSession({ inPlace: "require" });
    const state = session.createState({ dims: { batch: 2, capacity } });
    // The second sample's prompt is shorter: its tail is written over by what follows.
    await session.run(tokenFeeds([tokens(0, 6), tokens(0, 6)], [0, 0]), { state });
    state.rewind([6, 4]);
    const { logits } = await session.run(tokenFeeds([[tokenAt(6)], [tokenAt(4)]], state.lengths), { state });
    expect(state.lengths).toEqual([7, 5]);
    const alone = session.createState({ dims });
    const [first, second] = [await step(session, alone, tokens(0, 7)), session.createState({ dims })];
    const rows = logits.data as Float32Array;
    const close = (a: Float32Array, b: Float32Array): void => expect(distance(a, b)).toBeLessThan(1e-5);
    close(rows.slice(0, smallSizes.vocabulary), first);
    close(rows.slice(smallSizes.vocabulary), await step(session, second, tokens(0, 5)));
  });

  test("lengths follow indices that are fed", async () => {
    const session = await decoderSession();
    const state = session.createState({ dims });
    const feeds = { ...tokenFeeds([[1, 2]], [0]), write_indices: int64([5]), nonpad_kv_seqlen: int64([7]) };
    await session.run(feeds, { state });
    expect(state.lengths).toEqual([7]);
    await session.run(tokenFeeds([[3]], [7]), { state });
    expect(state.lengths).toEqual([8]);
  });
});

describe("between runs", () => {
  test("rewind then append equals fresh", async () => {
    const session = await decoderSession({ inPlace: "require" });
    const [again, fresh] = [session.createState({ dims }), session.createState({ dims })];
    await step(session, again, tokens(0, 9));
    await step(session, again, [99]);
    await step(session, again, [98]);
    again.rewind(9);
    await step(session, fresh, tokens(0, 9));
    expect(await step(session, again, [tokenAt(9)])).toEqual(await step(session, fresh, [tokenAt(9)]));
    expect(again.lengths).toEqual(fresh.lengths);
  });

  test("a state is empty until a sample has rows, and again once all are forgotten", async () => {
    const session = await decoderSession({ inPlace: "require" });
    const state = session.createState({ dims: { batch: 2, capacity } });
    expect(state.isEmpty).toBe(true);
    await session.run(tokenFeeds([tokens(0, 6), tokens(0, 6)], [0, 0]), { state });
    state.rewind([0, 4]);
    expect([state.isEmpty, state.fork().isEmpty]).toEqual([false, false]);
    const saved = await state.save();
    state.rewind(0);
    expect(state.isEmpty).toBe(true);
    await state.restore(saved);
    expect(state.isEmpty).toBe(false);
    state.reset();
    expect(state.isEmpty).toBe(true);
  });

  test("a fork that diverges leaves its parent untouched, and bytes are copied on the first write only", async () => {
    const session = await decoderSession({ inPlace: "require" });
    const parent = session.createState({ dims });
    await step(session, parent, tokens(0, 9));
    const before = parent.names.map((name) => (parent.get(name).data as Float32Array).slice());
    const child = parent.fork();
    expect(child.get(child.names[0]).data).toBe(parent.get(parent.names[0]).data);
    await step(session, child, [77]);
    expect(child.statistics.movedBytes).toBe(child.byteLength);
    expect(parent.names.map((name) => (parent.get(name).data as Float32Array).slice())).toEqual(before);
    expect(parent.lengths).toEqual([9]);
    await step(session, child, [78]);
    expect(child.statistics.movedBytes).toBe(child.byteLength);
    const straight = session.createState({ dims });
    await step(session, straight, tokens(0, 9));
    expect(await step(session, parent, [tokenAt(9)])).toEqual(await step(session, straight, [tokenAt(9)]));
    expect(parent.statistics.movedBytes).toBe(0);
  });

  test("save, restore, go on equals straight through, bit for bit", async () => {
    const session = await decoderSession({ inPlace: "require" });
    const [straight, saved] = [session.createState({ dims }), session.createState({ dims })];
    await step(session, straight, tokens(0, 9));
    await step(session, saved, tokens(0, 9));
    const bytes = await saved.save();
    const resumed = (await decoderSession()).createState({ dims });
    await resumed.restore(bytes);
    expect(resumed.lengths).toEqual([9]);
    const other = session.createState({ dims });
    await other.restore(bytes);
    expect(await step(session, other, [tokenAt(9)])).toEqual(await step(session, straight, [tokenAt(9)]));
  });

  test("saved bytes are safetensors", async () => {
    const session = await decoderSession();
    const state = session.createState({ dims });
    await step(session, state, tokens(0, 3));
    const bytes = await state.save();
    const length = Number(new DataView(bytes.buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length))) as Record<
      string,
      { dtype: string; shape: number[]; data_offsets: [number, number] }
    >;
    const name = state.names[1];
    expect(header[name]).toMatchObject({ dtype: "F32", shape: [1, 3, 16] });
    const [from, to] = header[name].data_offsets;
    const rows = new Float32Array(bytes.slice(8 + length + from, 8 + length + to).buffer);
    expect(rows).toEqual((state.get(name).data as Float32Array).slice(0, 3 * 16));
  });

  test("two states never share", async () => {
    const session = await decoderSession({ inPlace: "require" });
    const [a, b] = [session.createState({ dims }), session.createState({ dims })];
    await step(session, a, tokens(0, 5));
    await step(session, b, tokens(3, 8));
    const alone = session.createState({ dims });
    await step(session, alone, tokens(0, 5));
    expect(await step(session, a, [9])).toEqual(await step(session, alone, [9]));
  });

  test("set copies a tensor in", async () => {
    const session = await decoderSession();
    const [source, target] = [session.createState({ dims }), session.createState({ dims })];
    await step(session, source, tokens(0, 5));
    for (const name of source.names) target.set(name, source.get(name));
    const feeds = { ...tokenFeeds([[9]], [5]), write_indices: int64([5]), nonpad_kv_seqlen: int64([6]) };
    expect((await session.run(feeds, { state: target })).logits.data).toEqual(
      (await session.run(feeds, { state: source })).logits.data,
    );
  });
});

describe("bad input", () => {
  const refusal = async (action: () => unknown): Promise<InsituError> => {
    try {
      await action();
    } catch (error) {
      expect(error).toBeInstanceOf(InsituError);
      return error as InsituError;
    }
    throw new Error("nothing was refused");
  };

  test("capacity exceeded, negative and overlong indices: named, and nothing is written", async () => {
    const session = await decoderSession({ inPlace: "require" });
    const state = session.createState({ dims: { batch: 1, capacity: 8 } });
    await step(session, state, tokens(0, 8));
    const before = state.names.map((name) => (state.get(name).data as Float32Array).slice());
    const full = await refusal(() => step(session, state, [1]));
    expect(full.message).toMatch(/cache "past\.0\.key".*write_indices\[0\].*8 \+ 1 > 8/);
    const fed = (index: number): Promise<unknown> =>
      session.run(
        { ...tokenFeeds([[1]], [0]), write_indices: int64([index]), nonpad_kv_seqlen: int64([1]) },
        { state },
      );
    expect((await refusal(() => fed(-1))).message).toMatch(/write_indices\[0\] must not be negative, got -1/);
    expect((await refusal(() => fed(9))).message).toMatch(/9 \+ 1 > 8/);
    expect(state.names.map((name) => (state.get(name).data as Float32Array).slice())).toEqual(before);
    expect(state.lengths).toEqual([8]);
  });

  test("states of other sessions, other shapes, in use, or of a released session", async () => {
    const [session, other] = [await decoderSession(), await decoderSession()];
    const state = session.createState({ dims });
    expect((await refusal(() => step(other, state, [1]))).code).toBe("invalid-state");
    expect((await refusal(() => session.run(tokenFeeds([[1], [2]], [0, 0]), { state }))).message).toMatch(/"batch" is/);
    const first = step(session, state, [1]);
    expect((await refusal(() => step(session, state, [2]))).message).toMatch(/in use by a run/);
    await first;
    await step(session, state, [2]);
    expect(
      (
        await refusal(() =>
          session.run({ ...tokenFeeds([[1]], [0]), "past.0.key": state.get("past.0.key") }, { state }),
        )
      ).message,
    ).toMatch(/held by the state/);
    await session.release();
    expect((await refusal(() => step(session, state, [2]))).code).toBe("released");
  });

  test("a state that was released, and states of a released session, refuse everything and share nothing", async () => {
    const [session, other] = [await decoderSession(), await decoderSession()];
    const [released, left] = [session.createState({ dims }), session.createState({ dims })];
    await step(session, released, [1]);
    released.release();
    released.release();
    for (const use of [
      () => step(session, released, [1]),
      () => released.get("past.0.key"),
      () => released.fork(),
      () => released.rewind(0),
    ]) {
      expect((await refusal(use)).code).toBe("released");
    }
    await session.release();
    const later = other.createState({ dims });
    const tensor = new Tensor("float32", new Float32Array(capacity * 16).fill(7), [1, capacity, 16]);
    for (const use of [() => left.set("past.0.key", tensor), () => left.get("past.0.key"), () => left.save()]) {
      expect((await refusal(use)).code).toBe("released");
    }
    expect((later.get("past.0.key").data as Float32Array).every((value) => value === 0)).toBe(true);
  });

  test("saved bytes that are cut off, of another version or of other shapes change nothing", async () => {
    const session = await decoderSession();
    const state = session.createState({ dims });
    await step(session, state, tokens(0, 5));
    const bytes = await state.save();
    const target = session.createState({ dims });
    for (const length of [0, 4, 8, 100, bytes.length - 1])
      expect((await refusal(() => target.restore(bytes.slice(0, length)))).code).toBe("invalid-state");
    const text = new TextDecoder("latin1").decode(bytes);
    const renamed = Uint8Array.from(text.replace('"version":"2"', '"version":"9"'), (letter) => letter.charCodeAt(0));
    expect((await refusal(() => target.restore(renamed))).message).toMatch(/version 9/);
    expect((await refusal(() => session.createState({ dims: { batch: 1, capacity: 4 } }).restore(bytes))).message).toBe(
      'the saved state has 5 rows for cache "past.0.key", which has room for 4: create the state with a capacity of 5 or more',
    );
    expect((await refusal(() => session.createState({ dims: { batch: 2, capacity } }).restore(bytes))).message).toMatch(
      /1 samples, this one has 2/,
    );
    expect(target.lengths).toEqual([0]);
    expect((target.get("past.0.key").data as Float32Array).every((value) => value === 0)).toBe(true);
  });

  test("states that cannot be made, rewinds that cannot be done", async () => {
    const session = await decoderSession();
    expect((await refusal(() => session.createState({}))).message).toMatch(/"capacity" is not known/);
    expect((await refusal(() => session.createState({ dims: { batch: 1, capacity: 4, heads: 2 } }))).message).toMatch(
      /dims\.heads names no dimension/,
    );
    expect((await refusal(() => session.createState({ shapes: { "past.9.key": [1] } }))).message).toMatch(
      /no input that a state holds/,
    );
    expect((await refusal(() => session.createState({ dims: { batch: -1, capacity: 4 } }))).message).toMatch(
      /whole number/,
    );
    const state = session.createState({ dims });
    await step(session, state, tokens(0, 5));
    expect((await refusal(() => state.rewind(6))).message).toMatch(/sample 0 has 5 rows/);
    expect((await refusal(() => state.rewind([1, 2]))).message).toMatch(/one length for each of 1 samples/);
    expect((await refusal(() => state.get("nothing"))).message).toMatch(/none of past\.0\.key/);
  });
});
