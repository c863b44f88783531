// A program that runs again takes what the run before found: results must not depend on it, whatever happened in between.
import { expect, test, vi } from "vitest";
import { WasmEngine } from "../../src/backends/wasm/engine.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { distance } from "../support/compare.js";

const integers = (values: readonly number[], dims: readonly number[] = [1, values.length]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), dims);

const floats = (values: readonly number[]): Tensor => new Tensor("float32", Float32Array.from(values), [values.length]);

const open = (model: Model, backend: "wasm" | "reference"): Promise<InferenceSession> =>
  InferenceSession.create(writeModel(model), { backend });

/** The same decoder on both backends, with a state for each conversation on both. */
class Pair {
  readonly sessions: readonly InferenceSession[];

  private constructor(sessions: readonly InferenceSession[]) {
    this.sessions = sessions;
  }

  static async open(): Promise<Pair> {
    const model = generatedDecoder(smallSizes, { caches: "heads" });
    return new Pair([await open(model, "wasm"), await open(model, "reference")]);
  }

  states(): readonly State[] {
    return this.sessions.map((session) => session.createState({ dims: { batch: 1, capacity: 32 } }));
  }

  /** Runs the tokens on both and compares. */
  async run(states: readonly State[], tokens: readonly number[]): Promise<void> {
    const positions = tokens.map((_, at) => states[0].lengths[0] + at);
    const feeds = { input_ids: integers(tokens), position_ids: integers(positions) };
    const [fast, slow] = await Promise.all(
      this.sessions.map(async (session, at) => (await session.run(feeds, { state: states[at] }))["logits"]),
    );
    expect(distance(fast.data as Float32Array, slow.data as Float32Array)).toBeLessThan(1e-3);
  }

  async release(): Promise<void> {
    await Promise.all(this.sessions.map((session) => session.release()));
  }
}

test("what was found is used: a step of a known conversation makes no call anew", async () => {
  const pair = await Pair.open();
  const [first, second] = [pair.states(), pair.states()];
  for (const states of [first, second]) for (const token of [1, 2]) await pair.run(states, [token]);
  const call = vi.spyOn(WasmEngine.prototype, "call");
  for (const states of [first, second, second, first]) await pair.run(states, [3]);
  expect(call).not.toHaveBeenCalled();
  await pair.run(first, [3, 4]);
  expect(call).toHaveBeenCalled();
  call.mockRestore();
  await pair.release();
});

test("more conversations in turn than are kept", async () => {
  const pair = await Pair.open();
  const conversations = Array.from({ length: 20 }, () => pair.states());
  for (let round = 0; round < 4; round++)
    for (const [at, states] of conversations.entries()) await pair.run(states, [(round * 20 + at) % 128]);
  // Back and forth between two of them, then the others once more.
  for (const at of [3, 4, 3, 4, 4, 3, 0, 19, 3]) await pair.run(conversations[at], [at]);
  await pair.release();
});

test("a state in the place of one that was released", async () => {
  const pair = await Pair.open();
  for (let round = 0; round < 4; round++) {
    const states = pair.states();
    for (const token of [round, 5, 7, 9]) await pair.run(states, [token]);
    for (const state of states) state.release();
  }
  await pair.release();
});

test("prompts between single tokens, short ones and ones that need more memory", async () => {
  const pair = await Pair.open();
  const [first, second] = [pair.states(), pair.states()];
  await pair.run(first, [1]);
  await pair.run(first, [2]);
  await pair.run(second, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  await pair.run(first, [3]);
  await pair.run(second, [4]);
  await pair.run(first, [5, 6, 7]);
  await pair.run(second, [5, 6, 7]);
  await pair.run(first, [8]);
  await pair.release();
});

test("a fork shares its caches until one of the two writes", async () => {
  const pair = await Pair.open();
  const states = pair.states();
  for (const token of [1, 2, 3]) await pair.run(states, [token]);
  const forks = states.map((state) => state.fork());
  await pair.run(forks, [4]);
  await pair.run(states, [5]);
  await pair.run(forks, [6]);
  await pair.run(states, [6]);
  await pair.release();
});

test("after a run that was refused", async () => {
  const pair = await Pair.open();
  const states = pair.states();
  for (const token of [1, 2, 3]) await pair.run(states, [token]);
  for (const [at, session] of pair.sessions.entries()) {
    const state = states[at];
    const position_ids = integers([3]);
    // A token that is none: found by the first step that reads it.
    await expect(session.run({ input_ids: integers([128]), position_ids }, { state })).rejects.toThrow("Gather");
    // No room: found before anything is written.
    const feeds = { input_ids: integers([1]), position_ids, write_indices: integers([32], [1]) };
    await expect(session.run(feeds, { state })).rejects.toThrow("TensorScatter");
    expect(state.lengths).toEqual([3]);
  }
  for (const token of [4, 5]) await pair.run(states, [token]);
  await pair.release();
});

/** y = (x · w) with the reference implementation's CumSum between two fast steps, and indices that must lie in range. */
const mixed = (): Model =>
  buildModel({
    opset: 21,
    inputs: [value("x", "float32", [4]), value("at", "int64", [2])],
    outputs: [value("y", "float32", [2]), value("sum", "float32", [4])],
    initializers: [initializer("w", "float32", [1, 2, 3, 4], [4]), initializer("axis", "int64", [0n], [])],
    nodes: [
      node("Mul", ["x", "w"], ["product"]),
      node("CumSum", ["product", "axis"], ["sum"]),
      node("Add", ["sum", "w"], ["shifted"]),
      node("Gather", ["shifted", "at"], ["y"], { axis: 0 }),
    ],
  });

test("steps on the reference implementation between recorded ones", async () => {
  const session = await open(mixed(), "wasm");
  for (let round = 1; round < 5; round++) {
    const { y, sum } = await session.run({ x: floats([round, 1, 1, 1]), at: integers([3, -1 - (round % 4)], [2]) });
    const sums = [round, round + 2, round + 5, round + 9];
    expect([...(sum.data as Float32Array)]).toEqual(sums);
    const shifted = sums.map((each, at) => each + at + 1);
    expect([...(y.data as Float32Array)]).toEqual([shifted[3], shifted.at(-1 - (round % 4))]);
    await expect(session.run({ x: floats([0, 0, 0, 0]), at: integers([4, 0], [2]) })).rejects.toThrow("Gather");
  }
  await session.release();
});

test("results of an earlier run stay as they were", async () => {
  const session = await open(mixed(), "wasm");
  const at = integers([0, 1], [2]);
  const first = await session.run({ x: floats([1, 1, 1, 1]), at });
  const kept = [...(first["sum"].data as Float32Array)];
  await session.run({ x: floats([9, 9, 9, 9]), at });
  await session.run({ x: floats([7, 7, 7, 7]), at });
  expect([...(first["sum"].data as Float32Array)]).toEqual(kept);
  await session.release();
});

test("feeds of more shapes in turn than are kept, small and large, lie where nothing else was replayed", async () => {
  const session = await open(
    buildModel({
      opset: 24,
      inputs: [value("x", "float32", ["n"]), value("y", "float32", ["n"])],
      outputs: [value("z", "float32", ["n"])],
      nodes: [node("Mul", ["x", "y"], ["product"]), node("Sub", ["product", "y"], ["z"])],
    }),
    "wasm",
  );
  // Large feeds are freed when another shape comes, so that the next ones take their bytes.
  const sizes = [1, 5000, 2, 3, 5000, 4, 5, 6, 7000, 1, 1, 5000, 5000, 6, 2];
  for (let round = 0; round < 3; round++)
    for (const [at, size] of sizes.entries()) {
      const x = Array.from({ length: size }, (_, index) => (index % 7) + round + at);
      const y = Array.from({ length: size }, (_, index) => (index % 5) - round);
      const { z } = await session.run({ x: floats(x), y: floats(y) });
      expect([...(z.data as Float32Array)]).toEqual(x.map((each, index) => each * y[index] - y[index]));
    }
  await session.release();
});
