// States whose caches lie on a GPU: what they hold, and what runs make of it, against the reference on the host.
import { describe, expect, test, vi } from "vitest";
import { EvictingState } from "../../packages/eviction/evicting-state.js";
import { recentWindow } from "../../src/cache/eviction.js";
import { PagedState } from "../../src/cache/paged-state.js";
import { pages } from "../../src/cache/pages.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { keeping } from "../../src/webgpu-kernels/tuning.js";
import { noWebgpu } from "../support/backends.js";
import { largestDifference } from "../support/compare.js";
import { step, tokenAt, tokens } from "../support/decoding.js";
import { soak } from "../support/soak.js";

const decoder = writeModel(generatedDecoder(smallSizes));
const tolerance = 2e-5;

const open = (backend: SessionOptions["backend"], options: SessionOptions = {}): Promise<InferenceSession> =>
  InferenceSession.create(decoder, { backend, ...options });

/** Rows that nothing was written to hold NaN: whoever reads one shows it. */
function poison(state: State): void {
  for (const name of state.names) {
    const { type, dims, size } = state.get(name);
    if (type === "float32") state.set(name, new Tensor("float32", new Float32Array(size).fill(NaN), dims));
  }
}

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  test.each(soak ? (["require", "prefer", "never"] as const) : (["require"] as const))(
    "a decoder with forks and rewinds, inPlace: %s",
    async (inPlace) => {
      const [device, host] = [await open("webgpu", { inPlace }), await open("reference", { inPlace })];
      const dims = { batch: 1, capacity: 24 };
      const [ours, theirs] = [device.createState({ dims }), host.createState({ dims })];
      if (inPlace === "require") poison(ours);
      const both = async (ids: readonly number[], a = ours, b = theirs): Promise<void> => {
        const [actual, expected] = await Promise.all([step(device, a, ids), step(host, b, ids)]);
        expect(largestDifference(actual, expected)).toBeLessThan(tolerance);
      };
      await both(tokens(0, 5));
      for (let position = 5; position < 9; position++) await both([tokenAt(position)]);
      const [fork, other] = [ours.fork(), theirs.fork()];
      await both([7]);
      await both([3], fork, other);
      for (const state of [ours, theirs]) state.rewind(4);
      await both(tokens(4, 8));
      await both([9], fork, other);
      expect(ours.lengths).toEqual(theirs.lengths);
      expect(ours.statistics).toEqual(theirs.statistics);
      await Promise.all([device.release(), host.release()]);
    },
  );

  test("a large state that follows another of its sizes takes its memory over, zeroed, for a while", async () => {
    const dawn = await import("webgpu");
    const { prototype } = (dawn.globals as { readonly GPUDevice: { readonly prototype: GPUDevice } }).GPUDevice;
    const made = vi.spyOn(prototype, "createBuffer");
    const cachesMade = (): number =>
      made.mock.calls.filter(([{ label }]) => label?.startsWith('cache "') === true).length;
    const session = await open("webgpu");
    // Caches of 8 MiB.
    const [{ input }] = session.heldInputs;
    const one = session.createState({ dims: { batch: 1, capacity: 8 } });
    const row = one.get(input).size / 8;
    one.release();
    const dims = { batch: 1, capacity: Math.ceil(2 ** 21 / row) };
    const logits: Float32Array[] = [];
    const before = cachesMade();
    for (let round = 0; round < 3; round++) {
      const state = session.createState({ dims });
      logits.push(await step(session, state, tokens(0, 4)), await step(session, state, [9 + round]));
      poison(state);
      await state.get(input).getData();
      state.release();
      // What was asked before is done.
      await session
        .createState({ dims: { batch: 1, capacity: 8 } })
        .get(input)
        .getData();
    }
    const each = session.heldInputs.length;
    expect(cachesMade() - before).toBe(each + 3 * each);
    expect(logits[2]).toEqual(logits[0]);
    expect(logits[4]).toEqual(logits[0]);
    await new Promise((resolve) => setTimeout(resolve, keeping.spareCacheMilliseconds + 300));
    session.createState({ dims });
    expect(cachesMade() - before).toBe(2 * each + 3 * each);
    made.mockRestore();
    await session.release();
  });

  test("what a state holds is shown, saved, restored and edited", async () => {
    const session = await open("webgpu", { inPlace: "require" });
    const state = session.createState({ dims: { batch: 1, capacity: 16 } });
    await step(session, state, tokens(0, 9));
    const [name] = state.names;
    const shown = state.get(name);
    expect(shown.location).toBe("gpu-buffer");
    expect(() => shown.data).toThrow(/await tensor.getData/);
    const before = await shown.getData();
    // Asked for before the next run, whenever it is awaited.
    const [saved] = await Promise.all([state.save(), step(session, state, [5])]);
    const after = await step(session, state, [6]);
    await state.restore(saved);
    expect(state.lengths).toEqual([9]);
    expect(await state.get(name).getData()).toEqual(before);
    await step(session, state, [5]);
    expect(await step(session, state, [6])).toEqual(after);
    const rows = new Tensor("int64", [4n, 2n, 9n], [1, 3]);
    const [taken] = [(await state.get(name).getData()) as Float32Array];
    await state.edit(({ axis }) => ({
      operator: "RepackCache",
      domain: "insitu",
      attributes: { axis: axis! },
      inputs: { rows },
    }));
    const width = taken.length / 16;
    const moved = (await state.get(name).getData()) as Float32Array;
    [4, 2, 9].forEach((row, at) =>
      expect(moved.subarray(at * width, (at + 1) * width)).toEqual(taken.subarray(row * width, (row + 1) * width)),
    );
    await expect(
      state.edit(({ axis }) => ({
        operator: "RepackCache",
        domain: "insitu",
        attributes: { axis: axis! },
        inputs: { rows: new Tensor("int64", [16n], [1, 1]) },
      })),
    ).rejects.toThrow(/16/);
    expect(await state.get(name).getData()).toEqual(moved);
    await session.release();
  });

  test("a run that is refused writes nothing", async () => {
    const session = await open("webgpu", { inPlace: "require" });
    const state = session.createState({ dims: { batch: 1, capacity: 8 } });
    await step(session, state, tokens(0, 5));
    const before = await state.save();
    await expect(step(session, state, tokens(5, 10))).rejects.toThrow(/capacity|rows/);
    expect(await state.save()).toEqual(before);
    await session.release();
  });

  // In the soak: flight.test.ts has texts on pages in the tests.
  test.skipIf(!soak)("texts on pages and texts that forget", async () => {
    const read = async (backend: SessionOptions["backend"]): Promise<Float32Array[]> => {
      const session = await open(backend, { change: pages() });
      const state = new PagedState(session, { blocks: 12, blockSize: 4 });
      const sequence = state.add("one");
      const seen: Float32Array[] = [];
      const take = async (entries: Parameters<PagedState["step"]>[0]): Promise<void> => {
        for (const { last } of await state.step(entries)) seen.push(last.slice());
      };
      await take([{ sequence, tokens: tokens(0, 18) }]);
      const fork = sequence.fork();
      await take([
        { sequence, tokens: [3] },
        { sequence: fork, tokens: [4] },
      ]);
      await state.evict(fork, recentWindow({ sinks: 1 }), { budget: 9, exact: true });
      await take([
        { sequence, tokens: [5] },
        { sequence: fork, tokens: [6] },
      ]);
      await session.release();
      const linear = await open(backend);
      const forgetting = new EvictingState(linear, { capacity: 8, policy: recentWindow({ sinks: 1 }) });
      for (const token of tokens(0, 24)) seen.push(await forgetting.step([token]));
      await linear.release();
      return seen;
    };
    const [ours, theirs] = [await read("webgpu"), await read("reference")];
    expect(ours).toHaveLength(29);
    ours.forEach((row, at) => expect(largestDifference(row, theirs[at])).toBeLessThan(tolerance));
  });

  test("sessions come and go, and share the device while several are there", async () => {
    const sessions = await Promise.all([open("webgpu"), open("webgpu")]);
    const states = sessions.map((session) => session.createState({ dims: { batch: 1, capacity: 8 } }));
    const rows = await Promise.all(sessions.map((session, at) => step(session, states[at], tokens(0, 3))));
    expect(rows[0]).toEqual(rows[1]);
    await sessions[0].release();
    await step(sessions[1], states[1], [4]);
    await sessions[1].release();
    const again = await open("webgpu");
    const state = again.createState({ dims: { batch: 1, capacity: 8 } });
    expect(await step(again, state, tokens(0, 3))).toEqual(rows[0]);
    await again.release();
  });
});
