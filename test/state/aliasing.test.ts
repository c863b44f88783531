// Results, caches and the caller's own tensors in the same memory: every result is what the graph means, on every backend, under every
// policy. The expected numbers are written out or carried by hand, never taken from another run of ours.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { ops } from "../../packages/functions/ops.js";
import { buildModel, initializer, type ModelParts, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { int64 } from "../support/decoding.js";

const variants: SessionOptions[] = (["wasm", "reference"] as const).flatMap((backend) =>
  (["prefer", "never"] as const).map((inPlace) => ({ backend, inPlace, threads: 1 })),
);
const nameOf = ({ backend, inPlace }: SessionOptions): string => `${backend}, ${inPlace}`;

const floats = (values: readonly number[], dims: readonly number[] = [values.length]): Tensor<"float32"> =>
  new Tensor("float32", Float32Array.from(values), dims);
const numbersOf = (tensor: Tensor): number[] => [...(tensor.data as Float32Array)];
const open = (parts: Omit<ModelParts, "opset">, options: SessionOptions): Promise<InferenceSession> =>
  InferenceSession.create(writeModel(buildModel({ opset: 24, ...parts })), options);

const scatter = (past: string, present: string, update = "u", where = "w"): ReturnType<typeof node> =>
  node("TensorScatter", [past, update, where], [present], { axis: 1 });
const cache = (name: string): ReturnType<typeof value> => value(name, "float32", [1, 4, 2]);
const rows = [value("u", "float32", [1, 1, 2]), value("w", "int64", [1])];

/** The cache of four rows of two with one row written. */
const written = (before: readonly number[], row: readonly number[], at: number): number[] =>
  before.map((number, index) => (index >> 1 === at ? row[index & 1] : number));

const a0 = [1, 2, 3, 4, 5, 6, 7, 8];
const b0 = [11, 12, 13, 14, 15, 16, 17, 18];

describe.each(variants)("$backend, $inPlace", (options) => {
  test("views of the old values of two caches", async () => {
    const session = await open(
      {
        inputs: [cache("a"), cache("b"), ...rows],
        outputs: ["a2", "b2", "ra", "rb"].map((name) => value(name, "float32")),
        nodes: [
          scatter("a", "a2"),
          scatter("b", "b2"),
          node("Reshape", ["a", "line"], ["ra"]),
          node("Reshape", ["b", "line"], ["rb"]),
        ],
        initializers: [initializer("line", "int64", [8n], [1])],
      },
      options,
    );
    const state = session.createState();
    state.set("a", floats(a0, [1, 4, 2]));
    state.set("b", floats(b0, [1, 4, 2]));
    let [a, b] = [a0, b0];
    for (let step = 0; step < 4; step++) {
      const row = [100 + step, 200 + step];
      const { ra, rb } = await session.run({ u: floats(row, [1, 1, 2]), w: int64([step]) }, { state });
      expect(numbersOf(ra), `step ${step}`).toEqual(a);
      expect(numbersOf(rb), `step ${step}`).toEqual(b);
      [a, b] = [written(a, row, step), written(b, row, step)];
      expect(numbersOf(state.get("a"))).toEqual(a);
      expect(numbersOf(state.get("b"))).toEqual(b);
    }
  });

  test("one view beside a second cache, and outputs in the middle of a chain", async () => {
    const session = await open(
      {
        inputs: [cache("a"), cache("b"), ...rows, value("w2", "int64", [1])],
        outputs: ["a3", "b2", "a1", "old"].map((name) => value(name, "float32")),
        nodes: [
          scatter("a", "a1"),
          scatter("a1", "a3", "u", "w2"),
          scatter("b", "b2"),
          node("Identity", ["a"], ["old"]),
        ],
      },
      options,
    );
    const state = session.createState();
    state.set("a", floats(a0, [1, 4, 2]));
    state.set("b", floats(b0, [1, 4, 2]));
    let [a, b] = [a0, b0];
    const kept: [Tensor, number[]][] = [];
    for (let step = 0; step < 3; step++) {
      const row = [50 + step, 60 + step];
      const feeds = { u: floats(row, [1, 1, 2]), w: int64([step]), w2: int64([3 - step]) };
      const results = await session.run(feeds, ["a1", "old", "a3"], { state });
      const middle = written(a, row, step);
      const end = written(middle, row, 3 - step);
      kept.push([results["a1"], middle], [results["old"], a], [results["a3"], end]);
      [a, b] = [end, written(b, row, step)];
      expect(numbersOf(state.get("a"))).toEqual(a);
      expect(numbersOf(state.get("b"))).toEqual(b);
    }
    // What was handed out is the caller's: later runs do not change it.
    for (const [tensor, expected] of kept) expect(numbersOf(tensor)).toEqual(expected);
  });

  test("a result that is fetched into a feed's tensor does not change another result that shows the feed", async () => {
    const session = await open(
      {
        inputs: [value("a", "float32", [4]), value("b", "float32", [4])],
        outputs: ["y", "w", "z"].map((name) => value(name, "float32")),
        nodes: [node("Add", ["a", "b"], ["y"]), node("Identity", ["a"], ["w"]), node("Identity", ["b"], ["z"])],
      },
      options,
    );
    for (const order of [
      ["y", "w", "z"],
      ["z", "w", "y"],
      ["w", "y", "z"],
    ]) {
      const [a, b] = [floats([1, 2, 3, 4]), floats([10, 20, 30, 40])];
      const targets: Record<string, Tensor | null> = { y: a, w: null, z: null };
      const results = await session.run({ a, b }, Object.fromEntries(order.map((name) => [name, targets[name]])));
      expect(results["y"]).toBe(a);
      expect(numbersOf(results["y"])).toEqual([11, 22, 33, 44]);
      expect(numbersOf(results["w"])).toEqual([1, 2, 3, 4]);
      // Two feeds that trade places.
      const [c, d] = [floats([1, 2, 3, 4]), floats([10, 20, 30, 40])];
      const traded = await session.run({ a: c, b: d }, { w: d, z: c });
      expect([numbersOf(traded["w"]), numbersOf(traded["z"])]).toEqual([
        [1, 2, 3, 4],
        [10, 20, 30, 40],
      ]);
    }
    // Feeds and targets that overlap in one buffer, as other arrays and from other places.
    const memory = new ArrayBuffer(64);
    const at = (start: number): Tensor => new Tensor("float32", new Float32Array(memory, start, 4), [4]);
    const [a, b] = [at(0), at(16)];
    (a.data as Float32Array).set([1, 2, 3, 4]);
    (b.data as Float32Array).set([10, 20, 30, 40]);
    const shifted = await session.run({ a, b }, { y: at(8), w: at(24), z: at(40) });
    expect(numbersOf(shifted["y"])).toEqual([11, 22, 33, 44]);
    expect(numbersOf(shifted["w"])).toEqual([1, 2, 3, 4]);
    expect(numbersOf(shifted["z"])).toEqual([10, 20, 30, 40]);
  });

  test("targets that overlap each other are refused before anything runs, neighbours are not", async () => {
    const session = await open(
      {
        inputs: [cache("a"), ...rows],
        outputs: ["a2", "y"].map((name) => value(name, "float32")),
        nodes: [scatter("a", "a2"), node("Neg", ["a2"], ["y"])],
      },
      options,
    );
    const state = session.createState();
    state.set("a", floats(a0, [1, 4, 2]));
    const memory = new ArrayBuffer(128);
    const at = (start: number): Tensor => new Tensor("float32", new Float32Array(memory, start, 8), [1, 4, 2]);
    const feeds = { u: floats([9, 9], [1, 1, 2]), w: int64([2]) };
    const expected = written(a0, [9, 9], 2);
    await expect(session.run(feeds, { a2: at(0), y: at(28) }, { state })).rejects.toMatchObject({
      code: "invalid-argument",
      message: expect.stringMatching(/fetches\["a2"\] and fetches\["y"\] share memory/) as string,
    });
    expect(numbersOf(state.get("a"))).toEqual(a0);
    expect(new Uint8Array(memory).every((byte) => byte === 0)).toBe(true);
    const { a2, y } = await session.run(feeds, { a2: at(0), y: at(32) }, { state });
    expect(numbersOf(a2)).toEqual(expected);
    expect(numbersOf(y)).toEqual(expected.map((number) => -number));
  });

  test("a cache that the state shows is fed, and is written into", async () => {
    const session = await open(
      {
        inputs: [cache("a"), cache("b"), cache("x"), ...rows],
        outputs: ["a2", "b2", "y", "old"].map((name) => value(name, "float32")),
        nodes: [
          scatter("a", "a2"),
          scatter("b", "b2"),
          node("Add", ["x", "a2"], ["y"]),
          node("Identity", ["b"], ["old"]),
        ],
      },
      options,
    );
    const state = session.createState();
    state.set("a", floats(a0, [1, 4, 2]));
    state.set("b", floats(b0, [1, 4, 2]));
    // x is a's memory: the run must read what it was before the write.
    const fed = { x: state.get("a"), u: floats([7, 8], [1, 1, 2]), w: int64([1]) };
    const { y, old } = await session.run(fed, { y: null, old: state.get("a") }, { state });
    const a1 = written(a0, [7, 8], 1);
    expect(numbersOf(y)).toEqual(a1.map((number, at) => number + a0[at]));
    expect(numbersOf(old)).toEqual(b0);
    // The caller asked for b's old value in a's memory: that is what a holds now.
    expect(numbersOf(state.get("a"))).toEqual(b0);
    expect(numbersOf(state.get("b"))).toEqual(written(b0, [7, 8], 1));
    // A fork's memory, which the run's own state shared until then.
    const child = state.fork();
    const next = { x: floats(a0, [1, 4, 2]), u: floats([1, 1], [1, 1, 2]), w: int64([0]) };
    const into = await session.run(next, { old: child.get("b") }, { state });
    expect(numbersOf(into["old"])).toEqual(written(b0, [7, 8], 1));
    expect(numbersOf(state.get("b"))).toEqual(written(written(b0, [7, 8], 1), [1, 1], 0));
    expect(numbersOf(child.get("a"))).toEqual(b0);
    state.release();
    expect(numbersOf(child.get("b"))).toEqual(written(b0, [7, 8], 1));
  });

  test("lengths are those that were fed, whatever is written over them", async () => {
    const session = await open(
      {
        inputs: [cache("a"), ...rows],
        outputs: [value("a2", "float32"), value("e", "int64")],
        nodes: [scatter("a", "a2"), node("Add", ["w", "w"], ["e"])],
      },
      options,
    );
    const state = session.createState();
    const w = int64([1]);
    const { e } = await session.run({ u: floats([1, 2], [1, 1, 2]), w }, { e: w }, { state });
    expect(e.data).toEqual(BigInt64Array.of(2n));
    expect(state.lengths).toEqual([2]);
  });

  test("a result in the memory that the model was loaded from does not change the model", async () => {
    const weight = Float32Array.from({ length: 64 }, (_, at) => at + 1);
    const model = buildModel({
      opset: 24,
      inputs: [value("x", "float32", [64])],
      outputs: [value("y", "float32"), value("same", "float32")],
      nodes: [node("Add", ["x", "weight"], ["y"]), node("Identity", ["weight"], ["same"])],
      initializers: [initializer("weight", "float32", weight, [64])],
    });
    const bytes = writeModel(model);
    const file = new ArrayBuffer(bytes.length + 256);
    new Uint8Array(file).set(bytes);
    const session = await InferenceSession.create(new Uint8Array(file, 0, bytes.length), options);
    const x = floats(new Array<number>(64).fill(0));
    const inside = new Tensor("float32", new Float32Array(file, 4 * Math.floor(bytes.length / 8), 64), [64]);
    for (let run = 0; run < 2; run++) {
      const { y, same } = await session.run({ x }, { y: inside, same: null });
      expect(numbersOf(y)).toEqual([...weight]);
      expect(numbersOf(same)).toEqual([...weight]);
      new Uint8Array(file).fill(run);
    }
  });
});

test.each(variants)(
  "a copied cache stays where it is, so that what a state shows stays live: $backend, $inPlace",
  async (options) => {
    const session = await open(
      {
        inputs: [cache("a"), ...rows],
        outputs: ["a2", "old"].map((name) => value(name, "float32")),
        nodes: [scatter("a", "a2"), node("Identity", ["a"], ["old"])],
      },
      options,
    );
    const state = session.createState();
    const shown = state.get("a");
    const { allocations } = session.memory;
    for (let step = 0; step < 4; step++)
      await session.run({ u: floats([step, step], [1, 1, 2]), w: int64([step]) }, ["a2"], { state });
    expect(numbersOf(shown), nameOf(options)).toEqual([0, 0, 1, 1, 2, 2, 3, 3]);
    expect(state.get("a").data).toBe(shown.data);
    expect(state.statistics.movedBytes).toBe(4 * state.byteLength);
    if (options.backend === "wasm") expect(session.memory.allocations - allocations).toBeLessThanOrEqual(2);
  },
);

test("the operators as functions: an operand in the memory that the call writes is read as it was", () => {
  const memory = new ArrayBuffer(64);
  const at = (start: number, rows: number): Tensor =>
    new Tensor("float32", new Float32Array(memory, start, 2 * rows), [1, rows, 2]);
  const where = int64([1]);
  const circular = { axis: 1, mode: "circular", inPlace: true } as const;
  // The cache written into itself, one row on.
  (at(0, 4).data as Float32Array).set(a0);
  const cache = at(0, 4);
  ops.tensorScatter({ pastCache: cache, update: cache, writeIndices: where }, circular);
  expect(numbersOf(cache)).toEqual([7, 8, 1, 2, 3, 4, 5, 6]);
  // Rows that overlap the cache, as another tensor.
  (at(0, 4).data as Float32Array).set(a0);
  ops.tensorScatter({ pastCache: at(0, 4), update: at(8, 3), writeIndices: where }, circular);
  expect(numbersOf(at(0, 4))).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  (at(0, 4).data as Float32Array).set(a0);
  ops.tensorScatter({ pastCache: at(0, 4), update: at(0, 3), writeIndices: where }, circular);
  expect(numbersOf(at(0, 4))).toEqual([1, 2, 1, 2, 3, 4, 5, 6]);
  const words = new Tensor("string", ["a", "b", "c", "d"], [1, 4, 1]);
  ops.tensorScatter({ pastCache: words, update: words, writeIndices: where }, circular);
  expect(words.data).toEqual(["d", "a", "b", "c"]);
});

describe.each(variants)("$backend, $inPlace", (options) => {
  test("a cache that is written into itself", async () => {
    const session = await open(
      {
        inputs: [cache("a"), cache("b"), value("w", "int64", [1]), value("picks", "int64", [1, 4, 2])],
        outputs: ["a2", "b2"].map((name) => value(name, "float32")),
        nodes: [
          node("TensorScatter", ["a", "a", "w"], ["a2"], { axis: 1, mode: "circular" }),
          node("ScatterElements", ["b", "picks", "b"], ["b2"], { axis: 1 }),
        ],
      },
      options,
    );
    const state = session.createState();
    state.set("a", floats(a0, [1, 4, 2]));
    state.set("b", floats(b0, [1, 4, 2]));
    const picks = int64([1, 1, 2, 2, 3, 3, 0, 0], [1, 4, 2]);
    for (const { inPlace } of session.explain({ json: true }).caches) expect(inPlace).toBe(false);
    await session.run({ w: int64([1]), picks }, ["a2"], { state });
    expect(numbersOf(state.get("a"))).toEqual([7, 8, 1, 2, 3, 4, 5, 6]);
    expect(numbersOf(state.get("b"))).toEqual([17, 18, 11, 12, 13, 14, 15, 16]);
  });
});
