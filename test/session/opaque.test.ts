// A device whose memory nobody can look into runs what the others run: nothing outside of a backend touches bytes.
import { describe, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { backends } from "../../src/entry/backends.js";
import { nodePlatform } from "../../src/platform/node.js";
import { runCase } from "../../tools/conformance/case.js";
import { writeModel } from "../../src/onnx/write.js";
import type { ModelSource } from "../../src/session/load.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Session } from "../../src/session/session.js";
import type { State } from "../../src/session/state.js";
import { EvictingState } from "../../packages/eviction/evicting-state.js";
import { recentWindow } from "../../src/cache/eviction.js";
import { PagedState } from "../../src/cache/paged-state.js";
import { pages } from "../../src/cache/pages.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { archivedCases } from "../support/archived-cases.js";
import { tokenAt, tokenFeeds, tokens } from "../support/decoding.js";
import { exportedBytes, exportedDecoders, exportedStep } from "../support/exported-decoders.js";
import { opaqueBackend } from "../support/opaque-backend.js";
import { soak } from "../support/soak.js";
import type { AnyBackend } from "../support/any-backend.js";

const choices = [{ name: "opaque", load: async () => opaqueBackend }, ...backends];

class TestedSession extends Session {
  static async create(source: ModelSource, options?: AnyBackend): Promise<TestedSession> {
    return new TestedSession(await Session.prepare(source, nodePlatform, choices, options as SessionOptions));
  }
}

const decoder = writeModel(generatedDecoder(smallSizes));
const open = (backend: string, inPlace: "require" | "prefer" | "never"): Promise<TestedSession> =>
  TestedSession.create(decoder, { backend, inPlace });

async function step(session: Session, state: State, ids: readonly number[]): Promise<Tensor["data"]> {
  const { logits } = await session.run(tokenFeeds([ids], state.lengths), { state });
  return logits.data;
}

describe.each(["require", "prefer", "never"] as const)(
  "a decoder with caches that cannot be read, inPlace: %s",
  (inPlace) => {
    test("prefill, decode, rewind and forks that take turns give the reference's bits", async () => {
      const [device, host] = [await open("opaque", inPlace), await open("reference", inPlace)];
      const dims = { batch: 1, capacity: 24 };
      const pairs = [device, host].map((session) => ({ session, state: session.createState({ dims }) }));
      const both = async (work: (session: Session, state: State) => Promise<Tensor["data"]>): Promise<void> => {
        const [ours, theirs] = await Promise.all(pairs.map(({ session, state }) => work(session, state)));
        expect(ours).toEqual(theirs);
      };
      await both((session, state) => step(session, state, tokens(0, 5)));
      for (let position = 5; position < 9; position++)
        await both((session, state) => step(session, state, [tokenAt(position)]));
      const forks = pairs.map(({ session, state }) => ({ session, state: state.fork() }));
      await both((session, state) => step(session, state, [7]));
      const [ours, theirs] = await Promise.all(forks.map(({ session, state }) => step(session, state, [3])));
      expect(ours).toEqual(theirs);
      for (const { state } of pairs) state.rewind(4);
      await both((session, state) => step(session, state, tokens(4, 8)));
      expect(pairs[0].state.lengths).toEqual(pairs[1].state.lengths);
      expect(pairs[0].state.statistics).toEqual(pairs[1].state.statistics);
    });
  },
);

test("runs that are started at once do not disturb each other", async () => {
  const session = await open("opaque", "require");
  const states = [0, 1, 2].map(() => session.createState({ dims: { batch: 1, capacity: 8 } }));
  const together = await Promise.all(states.map((state, at) => step(session, state, tokens(at, at + 4))));
  const alone = await Promise.all(
    [0, 1, 2].map(async (at) =>
      step(session, session.createState({ dims: { batch: 1, capacity: 8 } }), tokens(at, at + 4)),
    ),
  );
  expect(together).toEqual(alone);
});

test("what a state holds is shown, saved, restored, set and edited", async () => {
  const [device, host] = [await open("opaque", "require"), await open("reference", "require")];
  const dims = { batch: 1, capacity: 16 };
  const states = [device, host].map((session) => session.createState({ dims }));
  const [ours, theirs] = states;
  await Promise.all([step(device, ours, tokens(0, 9)), step(host, theirs, tokens(0, 9))]);
  const [name] = ours.names;
  const shown = ours.get(name);
  expect(shown.location).toBe("gpu-buffer");
  expect(shown.dims).toEqual(theirs.get(name).dims);
  expect(() => shown.data).toThrow(/float32\[.*\] is on a device .*: await tensor.getData\(\) gives its elements/);
  expect(() => shown.toView()).toThrow(/await tensor.getData/);
  await expect(device.run({ ...tokenFeeds([[1]], [9]), input_ids: shown }, { state: ours })).rejects.toThrow(
    /input "input_ids": .*await tensor.getData/,
  );
  expect(await shown.getData()).toEqual(theirs.get(name).data);
  expect(await shown.reshape([shown.size]).getData()).toEqual(theirs.get(name).data);
  // What is saved is what was there when it was asked for.
  const [saved, , expected] = await Promise.all([ours.save(), step(device, ours, [5]), theirs.save()]);
  expect(saved).toEqual(expected);
  const fork = ours.fork();
  await Promise.all(states.map((state) => state.restore(saved)));
  expect(await step(device, ours, [5])).toEqual(await step(host, theirs, [5]));
  expect(fork.lengths).toEqual([10]);
  expect(await fork.get(name).getData()).toEqual(theirs.get(name).data);
  for (const state of states) {
    state.set(
      name,
      new Tensor(
        "float32",
        Float32Array.from({ length: shown.size }, (_, at) => at),
        shown.dims,
      ),
    );
    const rows = new Tensor("int64", [4n, 2n, 9n], [1, 3]);
    await state.edit(({ axis }) => ({
      operator: "RepackCache",
      domain: "insitu",
      attributes: { axis: axis! },
      inputs: { rows },
    }));
  }
  for (const held of ours.names) expect(await ours.get(held).getData()).toEqual(theirs.get(held).data);
  expect(await step(device, ours, [6])).toEqual(await step(host, theirs, [6]));
  expect(await step(device, fork, [7])).not.toEqual(await step(device, ours, [7]));
  expect(device.explain()).toMatch(/brought to the backend .*\n {2}input_ids: 8 bytes from the host\n/);
  shown.dispose();
  ours.release();
  expect(shown.location).toBe("none");
});

test("edits that are refused write nothing", async () => {
  const session = await open("opaque", "require");
  const state = session.createState({ dims: { batch: 1, capacity: 8 } });
  await step(session, state, tokens(0, 4));
  const before = await state.save();
  const edit = (rows: bigint[], more = {}): Promise<void> =>
    state.edit(({ axis }) => ({
      operator: "RepackCache",
      domain: "insitu",
      attributes: { axis: axis! },
      inputs: { rows: new Tensor("int64", rows, [1, rows.length]) },
      ...more,
    }));
  await expect(edit([1n, 8n])).rejects.toThrow(/edit of cache "past.0.key".*8/);
  await expect(edit([1n], { operator: "Nonsense" })).rejects.toThrow(/Nonsense/);
  await expect(edit([1n], { operator: "Relu", domain: "" })).rejects.toThrow(/no operator that writes one cache/);
  await expect(edit([1n], { inputs: { cache: 1 } })).rejects.toThrow(/"cache" is no operand of RepackCache/);
  await expect(edit([1n], { inputs: {} })).rejects.toThrow(/rows/);
  expect(await state.save()).toEqual(before);
  const running = edit([3n]);
  expect(() => state.rewind(0)).toThrow("the state is in use by a run");
  await running;
  expect(await state.save()).not.toEqual(before);
});

test("texts on pages and texts that forget", async () => {
  const model = writeModel(generatedDecoder({ ...smallSizes, positions: 64 }));
  const paged = async (backend: string): Promise<unknown[]> => {
    const session = await TestedSession.create(model, { backend, change: pages() });
    const state = new PagedState(session, { blocks: 12, blockSize: 4 });
    const seen: unknown[] = [];
    const sequence = state.add("one");
    const read = async (...ids: readonly (readonly number[])[]): Promise<void> => {
      const sequences = [sequence, fork].slice(0, ids.length);
      const read = await state.step(ids.map((own, at) => ({ sequence: sequences[at], tokens: own })));
      seen.push(read.map(({ last }) => [...last]));
    };
    let fork = sequence;
    await read(tokens(0, 18));
    fork = sequence.fork();
    await read([3], [4]);
    seen.push(await state.evict(fork, recentWindow({ sinks: 1 }), { budget: 9, exact: true }));
    await read([5], [6]);
    seen.push(state.pool.copies, fork.table.length, sequence.length);
    state.release();
    return seen;
  };
  expect(await paged("opaque")).toEqual(await paged("reference"));
  const forgetting = async (backend: string): Promise<unknown> => {
    const session = await TestedSession.create(model, { backend });
    const state = new EvictingState(session, { capacity: 8, policy: recentWindow({ sinks: 1 }) });
    const seen = [];
    for (const token of tokens(0, 24)) seen.push([...(await state.step([token]))]);
    return [seen, state.movedRows, state.positions()];
  };
  expect(await forgetting("opaque")).toEqual(await forgetting("reference"));
});

// All of them in the soak.
const sampled = exportedDecoders.filter((_, at) => soak || at % 12 === 0);
test.each(sampled)(
  "%s, as it was exported: steps, forks, saves and rewinds give the reference's bits",
  async (model) => {
    const [device, host] = await Promise.all(
      ["opaque", "reference"].map((backend) => TestedSession.create(exportedBytes(model), { backend })),
    );
    for (const run of ["step", "long", "padded"]) {
      const first = exportedStep(model, `${run}0`);
      if (first === undefined) continue;
      const batch = first.get("input_ids")!.shape[0];
      const shapes = Object.fromEntries(
        device.inputMetadata
          .filter(({ name }) => name.startsWith("past"))
          .map(({ name, shape }) => [
            name,
            shape.map((dim, axis) => (typeof dim === "number" ? dim : axis === 0 ? batch : 0)),
          ]),
      );
      const sides = [device, host].map((session) => ({ session, state: session.createState({ shapes }) }));
      for (let number = 0; ; number++) {
        const recorded = exportedStep(model, `${run}${number}`);
        if (recorded === undefined) break;
        const feeds = Object.fromEntries(
          device.inputNames.flatMap((name) => {
            const view = name in shapes ? undefined : recorded.get(name);
            return view === undefined ? [] : [[name, Tensor.fromView(view)]];
          }),
        );
        const take = (each: readonly { session: Session; state: State }[]): Promise<Record<string, Tensor>[]> =>
          Promise.all(each.map(({ session, state }) => session.run(feeds, { state })));
        const before = sides.map(({ session, state }) => ({ session, state: state.fork() }));
        const [ours, theirs] = await take(sides);
        expect(ours, `${run}${number}`).toEqual(theirs);
        // The same step by a fork of what was there before, and by what a save of it restores.
        expect((await take(before))[0]).toEqual(theirs);
        const restored = device.createState({ shapes });
        await restored.restore(await sides[0].state.save());
        expect(restored.lengths).toEqual(sides[1].state.lengths);
        const [copy, own, expected] = await Promise.all(
          [restored, sides[0].state, sides[1].state].map((state) => state.save()),
        );
        expect(copy).toEqual(own);
        expect(own).toEqual(expected);
        for (const { state } of before) state.release();
        restored.release();
        if (number > 0 || !sides[0].state.countsRows) continue;
        const { lengths } = sides[0].state;
        for (const { state } of sides) state.rewind(0);
        const [again] = await take(sides);
        expect(again, `${run}${number} after a rewind`).toEqual(theirs);
        expect(sides[0].state.lengths).toEqual(lengths);
      }
    }
  },
);

test("the KV family of ONNX's suite passes", async () => {
  const family = /attention|tensor_?scatter|linear_attention|causal_conv|flex_?attention|rotary|rms_norm|swiglu/;
  const cases = archivedCases(new URL("../conformance/onnx-node-1.23.1.tar.br", import.meta.url)).filter(({ name }) =>
    family.test(name),
  );
  expect(cases.length).toBeGreaterThanOrEqual(325);
  const every = soak ? 1 : 10;
  const problems: string[] = [];
  for (const [at, files] of cases.entries()) {
    if (at % every !== 0) continue;
    const result = await runCase(files, (model) => TestedSession.create(model, { backend: "opaque" }));
    if (result.status !== "passed") problems.push(`${files.name}: ${result.reason}`);
  }
  expect(problems).toEqual([]);
});
