// Memory that somebody else may change, take away or reuse: tensors whose dims, buffers or strings change under them, and what `state.get`
// gave once the state was released, moved or forked. No run may read or write what is not the caller's, on any backend.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test, vi } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { InferenceSession } from "../../src/entry/node.js";
import { ops } from "../../packages/functions/ops.js";
import { seededRandom } from "../../src/graph/call.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { soak } from "../support/soak.js";

const backends = ["wasm", "reference"] as const;

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as () => void;

/** Lets everything be collected that nobody holds, and those who wait for it hear of it. */
async function collect(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 1));
  gc();
  await new Promise((resolve) => setTimeout(resolve, 20));
}

/** A cache that is written, and the sum of all of it. */
const written = writeModel(
  buildModel({
    nodes: [
      node("TensorScatter", ["past", "u", "w"], ["present"], { axis: 1 }),
      node("ReduceSum", ["present"], ["sum"], { keepdims: 0 }),
      node("Add", ["x", "x"], ["y"]),
    ],
    inputs: [
      value("past", "float32", ["batch", "capacity", 2]),
      value("u", "float32", ["batch", "new", 2]),
      value("w", "int64", ["batch"]),
      value("x", "float32", ["a", "b"]),
    ],
    outputs: [value("present"), value("sum"), value("y")],
    opset: 24,
  }),
);

/** A cache that grows: a reserve that doubles, or a buffer that is made anew. */
const growing = writeModel(
  buildModel({
    nodes: [node("Concat", ["past", "u"], ["present"], { axis: 1 })],
    inputs: [value("past", "float32", ["batch", "rows", 2]), value("u", "float32", ["batch", "new", 2])],
    outputs: [value("present")],
    opset: 24,
  }),
);

const floats = (values: readonly number[], dims: readonly number[]): Tensor =>
  new Tensor("float32", Float32Array.from(values), dims);
const row = (by: number): Tensor => floats([by, by], [1, 1, 2]);
const arrayOf = (tensor: Tensor): Float32Array => tensor.data as Float32Array;

/** An InsituError with one of these codes. */
const refusal = (...codes: string[]): unknown =>
  expect.toSatisfy((error: unknown) => error instanceof InsituError && codes.includes(error.code));

/** A buffer whose size may change, which newer libraries of types know. */
const resizable = (bytes: number): ArrayBuffer & { resize(bytes: number): void } =>
  Reflect.construct(ArrayBuffer, [bytes, { maxByteLength: 128 }]) as ArrayBuffer & { resize(bytes: number): void };

/** Ways in which an array of 4 floats comes to show fewer or more, each with an array before it happens and the doing. */
const changes: Readonly<Record<string, () => readonly [array: Float32Array, change: () => void]>> = {
  "its buffer transferred": () => {
    const array = new Float32Array(4);
    return [array, () => void structuredClone(array.buffer, { transfer: [array.buffer] })];
  },
  "its resizable buffer shrunk": () => {
    const buffer = resizable(64);
    return [new Float32Array(buffer, 16, 4), () => buffer.resize(24)];
  },
  "its length following a buffer that shrank": () => {
    const buffer = resizable(16);
    return [new Float32Array(buffer), () => buffer.resize(8)];
  },
  "its length following a buffer that grew": () => {
    const buffer = resizable(16);
    return [new Float32Array(buffer), () => buffer.resize(64)];
  },
  "its WebAssembly memory grown": () => {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 4 });
    return [new Float32Array(memory.buffer, 64, 4), () => void memory.grow(1)];
  },
};

describe.each(backends)("on %s", (backend) => {
  const create = (model: Uint8Array): Promise<InferenceSession> =>
    InferenceSession.create(model, { backend, threads: 1 });

  test("a tensor's type, dims and size stay what they were", async () => {
    const session = await create(written);
    const x = floats([1, 2, 3, 4], [2, 2]);
    const dims = x.dims as number[];
    expect(() => (dims[0] = 1000)).toThrow(TypeError);
    expect(() => dims.push(5)).toThrow(TypeError);
    for (const field of [{ dims: [1000, 2] }, { type: "int64" }, { size: 1 }])
      expect(() => Object.assign(x, field)).toThrow(TypeError);
    const given = [2, 2];
    const other = floats([1, 2, 3, 4], given);
    given[0] = 1000;
    for (const tensor of [x, other]) {
      const { y } = await session.run({ x: tensor, past: floats([0, 0], [1, 1, 2]), u: row(1), w: int64(0) }, ["y"]);
      expect([y.dims, [...arrayOf(y)]]).toEqual([
        [2, 2],
        [2, 4, 6, 8],
      ]);
    }
    await session.release();
  });

  test.each(Object.keys(changes))("a tensor with %s is refused wherever it is read or written", async (name) => {
    const session = await create(written);
    const state = session.createState({ dims: { batch: 1, capacity: 2 } });
    await session.run({ u: row(7), x: row(1).reshape([1, 2]) }, { state });
    const before = await state.save();
    const spoilt = (dims: readonly number[]): Tensor => {
      const [array, change] = changes[name]();
      const tensor = new Tensor("float32", array, dims);
      change();
      return tensor;
    };
    const feeds = { x: floats([1, 2], [1, 2]), past: floats([0, 0], [1, 1, 2]), u: row(1), w: int64(0) };
    const calls: (() => unknown)[] = [
      () => session.run({ ...feeds, x: spoilt([2, 2]) }),
      () => session.run({ ...feeds, past: spoilt([1, 2, 2]) }),
      () => session.run({ u: row(1), x: spoilt([2, 2]) }, { state }),
      () => session.run({ ...feeds, x: floats([1, 2, 3, 4], [2, 2]) }, { y: spoilt([2, 2]) }),
      () => session.run({ u: row(1), x: floats([1, 2, 3, 4], [2, 2]) }, { y: spoilt([2, 2]) }, { state }),
      () => session.run({ u: row(1), x: feeds.x }, { present: spoilt([1, 2, 2]) }, { state }),
      () => state.set("past", spoilt([1, 2, 2])),
      () => spoilt([2, 2]).reshape([4]),
      () => ops.tensorScatter({ pastCache: spoilt([1, 2, 2]), update: row(1) }, { axis: 1 }),
      () => ops.tensorScatter({ pastCache: spoilt([1, 2, 2]), update: row(1) }, { axis: 1, inPlace: true }),
      () => ops.tensorScatter({ pastCache: floats([0, 0, 0, 0], [1, 2, 2]), update: spoilt([1, 2, 2]) }, { axis: 1 }),
    ];
    for (const [at, call] of calls.entries())
      await expect(async () => call(), `call ${at}`).rejects.toEqual(refusal("invalid-argument"));
    expect(await state.save()).toEqual(before);
    await session.release();
  });

  test("what a feed was when the run began is what counts, whatever the object of feeds does", async () => {
    const session = await create(written);
    const x = floats([1, 2], [1, 2]);
    const feeds = {
      x,
      past: floats([0, 0], [1, 1, 2]),
      u: row(1),
      get w(): Tensor {
        structuredClone(arrayOf(x).buffer, { transfer: [arrayOf(x).buffer as ArrayBuffer] });
        return int64(0);
      },
    };
    await expect(session.run(feeds)).rejects.toMatchObject({ message: expect.stringContaining('input "x"') });
    // Arrays in the middle of a buffer, and in memory that threads share.
    const buffer = Float32Array.of(9, 9, 1, 2, 9, 9);
    const shared = new Float32Array(new SharedArrayBuffer(24), 8, 2);
    shared.set([1, 2]);
    for (const data of [buffer.subarray(2, 4), shared]) {
      const given = { ...feeds, x: new Tensor("float32", data, [1, 2]), w: int64(0) };
      const { y } = await session.run(given, ["y"]);
      expect([...arrayOf(y)]).toEqual([2, 4]);
      const target = new Tensor("float32", data, [1, 2]);
      await session.run({ ...given, x: floats([5, 6], [1, 2]) }, { y: target });
      expect([...data]).toEqual([10, 12]);
    }
    expect([...buffer]).toEqual([9, 9, 10, 12, 9, 9]);
    await session.release();
  });

  test("strings that became something else are refused", async () => {
    const model = buildModel({
      nodes: [node("Identity", ["s"], ["t"])],
      inputs: [value("s", "string", ["n"])],
      outputs: [value("t")],
      opset: 21,
    });
    const session = await create(writeModel(model));
    const data = ["a", "b"];
    const s = new Tensor("string", data, [2]);
    const { t } = await session.run({ s });
    data[0] = "c";
    expect(t.data).toEqual(["a", "b"]);
    expect((await session.run({ s })).t.data).toEqual(["c", "b"]);
    for (const change of [(): void => void data.push("d"), (): void => void data.splice(0, 3, 5 as never, "b")]) {
      change();
      await expect(session.run({ s })).rejects.toEqual(refusal("invalid-argument"));
    }
    await session.release();
  });

  test("a tensor of a released state or session cannot be used", async () => {
    const session = await create(written);
    const other = session.createState({ dims: { batch: 1, capacity: 2 } });
    const feeds = { past: floats([0, 0], [1, 1, 2]), u: row(1), w: int64(0) };
    for (const release of [(state: State): unknown => state.release(), (): unknown => session.release()]) {
      const state = session.createState({ dims: { batch: 1, capacity: 2 } });
      const tensor = state.get("past");
      const flat = tensor.reshape([2, 2]);
      await session.run({ u: row(3), x: flat }, { state });
      expect([...arrayOf(tensor)]).toEqual([3, 3, 0, 0]);
      expect([tensor.location, flat.location]).toEqual(["cpu", "cpu"]);
      const alive = session.createState({ dims: { batch: 1, capacity: 2 } });
      await release(state);
      for (const gone of [tensor, flat]) {
        expect(gone.location).toBe("none");
        expect(String(gone)).toMatch(/^float32\[/);
        const calls: (() => unknown)[] = [
          () => gone.data,
          () => gone.getData(),
          () => gone.toView(),
          () => session.run({ ...feeds, x: flat }),
          () => session.run({ ...feeds, x: floats([1, 2, 3, 4], [2, 2]) }, { y: flat }),
          () => alive.set("past", tensor),
          () => ops.tensorScatter({ pastCache: tensor, update: row(1) }, { axis: 1, inPlace: true }),
          () => gone.reshape([4]).data,
          () => state.get("past"),
        ];
        for (const [at, call] of calls.entries())
          await expect(async () => call(), `call ${at}`).rejects.toEqual(refusal("released"));
      }
    }
    expect(() => other.get("past")).toThrow(refusal("released") as Error);
  });

  test("an array of a released state is nobody else's, for as long as it is held", async () => {
    const session = await create(written);
    const make = (): State => session.createState({ dims: { batch: 1, capacity: 1024 } });
    const keep: Float32Array[] = [];
    const others: State[] = [];
    for (let at = 0; at < 4; at++) {
      const state = make();
      state.set("past", floats(new Array<number>(2048).fill(at + 1), [1, 1024, 2]));
      // A part of it holds it as well; the tensor and the array itself are let go of.
      keep.push(arrayOf(state.get("past")).subarray(100, 200));
      if (at % 2 === 0) state.release();
      await collect();
      const other = make();
      other.set("past", floats(new Array<number>(2048).fill(-7), [1, 1024, 2]));
      others.push(other);
    }
    keep.forEach((part, at) => {
      expect(part.every((number) => number === at + 1)).toBe(true);
      part.fill(99);
    });
    for (const other of others) expect(arrayOf(other.get("past")).every((number) => number === -7)).toBe(true);
    // The last session goes, and the next one computes in the same memory.
    await session.release();
    const next = await create(written);
    const state = next.createState({ dims: { batch: 1, capacity: 1024 } });
    for (const part of keep) part.fill(55);
    expect(arrayOf(state.get("past")).every((number) => number === 0)).toBe(true);
    await next.release();
  });

  test("memory whose arrays were let go of is used again", async () => {
    const session = await create(written);
    const use = async (): Promise<void> => {
      const state = session.createState({ dims: { batch: 1, capacity: 2 ** 18 } });
      arrayOf(state.get("past")).subarray(1).fill(1);
      state.release();
      await collect();
    };
    await use();
    const grown = vi.spyOn(WebAssembly.Memory.prototype, "grow");
    for (let round = 0; round < 4; round++) await use();
    expect(grown).not.toHaveBeenCalled();
    grown.mockRestore();
    await session.release();
  });

  test("a tensor of a reserve that has grown is told so, and its array is left alone", async () => {
    const session = await create(growing);
    const [state, other] = [0, 1].map(() => session.createState({ dims: { batch: 1, capacity: 2 } }));
    await session.run({ u: row(1) }, { state });
    const tensor = state.get("past");
    const array = arrayOf(tensor);
    for (let at = 0; at < 20; at++) await session.run({ u: row(5) }, { state: at % 2 === 0 ? state : other });
    expect(() => tensor.data).toThrow(
      expect.objectContaining({ code: "invalid-state", message: expect.stringContaining("grown") }),
    );
    const [before, beside] = [await state.save(), await other.save()];
    array.fill(-1);
    expect([await state.save(), await other.save()]).toEqual([before, beside]);
    expect([...arrayOf(state.get("past"))].slice(0, 4)).toEqual([1, 1, 5, 5]);
    await session.release();
  });

  const seed = Number(process.env["INSITU_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
  test(`states that are run, forked, looked at and released at random, seed ${seed}`, async () => {
    const session = await create(written);
    const random = seededRandom(seed);
    const below = (most: number): number => Math.floor(random() * most);
    const capacity = 3;
    /** A state, what it holds by a list of its own, and the states whose bytes it may share: those of its group. */
    interface Known {
      readonly state: State;
      expected: number[];
      group: object;
    }
    /** An array that was taken, the states it was taken of, and the group whose bytes it shows; none once it shows nobody's. */
    interface Taken {
      readonly array: Float32Array;
      readonly of: Set<Known>;
      group: object | undefined;
    }
    let states: Known[] = [];
    let arrays: Taken[] = [];
    const add = (state: State, expected: number[], group: object): void =>
      void states.push({ state, expected: [...expected], group });
    /** A state is about to be written: the arrays that show it alone go with it, those that show forks too show nobody. */
    const part = (known: Known): void => {
      if (!states.some((other) => other !== known && other.group === known.group)) return;
      const before = known.group;
      known.group = {};
      for (const taken of arrays) {
        if (taken.group !== before || !taken.of.has(known)) continue;
        taken.group = taken.of.size === 1 ? known.group : undefined;
      }
    };
    const rounds = soak ? 10_000 : 150;
    for (let round = 0; round < rounds; round++) {
      const known = states[below(states.length)];
      switch (known === undefined ? 0 : below(8)) {
        case 0:
          if (states.length < 6)
            add(session.createState({ dims: { batch: 1, capacity } }), new Array<number>(6).fill(0), {});
          break;
        case 1:
        case 2: {
          part(known);
          const [at, by] = [below(capacity), round + 1];
          known.expected.splice(at * 2, 2, by, by);
          const { sum } = await session.run({ u: row(by), w: int64(at), x: row(1).reshape([1, 2]) }, ["sum"], {
            state: known.state,
          });
          expect(sum.data[0]).toBe(known.expected.reduce((all, each) => all + each, 0));
          break;
        }
        case 3:
          if (states.length < 6) add(known.state.fork(), known.expected, known.group);
          break;
        case 4:
          known.state.release();
          states = states.filter((other) => other !== known);
          for (const taken of arrays) if (taken.of.has(known) && taken.group === known.group) taken.group = undefined;
          break;
        case 5: {
          const array = arrayOf(known.state.get("past"));
          const same = arrays.find((taken) => taken.array === array);
          if (same === undefined) arrays.push({ array, of: new Set([known]), group: known.group });
          else same.of.add(known);
          break;
        }
        case 6: {
          // A caller writes an array: the states that show it see it, and nobody else does.
          const taken = arrays[below(arrays.length)];
          if (taken === undefined) break;
          taken.array.fill(round + 0.5);
          for (const each of states) if (each.group === taken.group) each.expected.fill(round + 0.5);
          break;
        }
        default:
          // Those that show nobody's bytes are let go of: a state gives the others again.
          arrays = arrays.filter(({ group }) => group !== undefined || below(2) === 0);
          if (round % 100 === 0) await collect();
      }
      for (const each of states) {
        const found = ops.tensorScatter(
          { pastCache: each.state.get("past"), update: floats([], [1, 0, 2]) },
          { axis: 1 },
        );
        expect([...arrayOf(found.presentCache)], `round ${round}`).toEqual(each.expected);
      }
    }
    await session.release();
  });
});

const int64 = (at: number): Tensor => new Tensor("int64", [BigInt(at)], [1]);
