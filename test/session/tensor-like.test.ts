// Tensors that insitu did not make: plain objects, onnxruntime-common's, another copy of insitu's. They are fed and written as our own are,
// and what is nearly one is refused by name, with nothing run.
import { existsSync } from "node:fs";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import type { TensorLike } from "../../src/tensor/tensor-like.js";

const backends = ["wasm", "reference"] as const;
const common = new URL("../../peers/node_modules/onnxruntime-common/dist/esm/index.js", import.meta.url);

const model = writeModel(
  buildModel({
    nodes: [
      node("Add", ["x", "z"], ["y"]),
      node("Identity", ["words"], ["same"]),
      node("Not", ["flag"], ["other"]),
      node("TensorScatter", ["past", "u"], ["present"], { axis: 1 }),
    ],
    inputs: [
      value("x", "float32", ["n"]),
      value("z", "float32", ["n"]),
      value("words", "string", ["m"]),
      value("flag", "bool", ["m"]),
      value("past", "float32", ["batch", "capacity"]),
      value("u", "float32", ["batch", "new"]),
    ],
    outputs: [value("y"), value("same"), value("other"), value("present")],
    opset: 24,
  }),
);

type Make = (type: string, data: TensorLike["data"], dims: number[]) => TensorLike;
const plain: Make = (type, data, dims) => ({ type, data, dims });
const feedsOf = (make: Make): Record<string, TensorLike> => ({
  x: make("float32", Float32Array.of(1, 2), [2]),
  z: make("float32", Float32Array.of(10, 20), [2]),
  words: make("string", ["a", "b"], [2]),
  flag: make("bool", Uint8Array.of(1, 0), [2]),
  past: make("float32", new Float32Array(4), [1, 4]),
  u: make("float32", Float32Array.of(7), [1, 1]),
});

/** Tensors made in every way that there is. */
const makers = new Map<string, Make>([
  ["plain objects", plain],
  ["objects that tell their place", (type, data, dims) => ({ type, data, dims, location: "cpu" })],
  ["objects without a prototype", (type, data, dims) => Object.assign(Object.create(null), plain(type, data, dims))],
  [
    "objects with getters that answer once",
    (type, data, dims) => {
      const left: Record<string, unknown> = { type, data, dims };
      const once = (name: string) => () => {
        const answer = left[name];
        left[name] = 7;
        return answer;
      };
      return Object.defineProperties({} as TensorLike, {
        type: { get: once("type") },
        data: { get: once("data") },
        dims: { get: once("dims") },
      });
    },
  ],
]);

beforeAll(async () => {
  vi.resetModules();
  const copy = (await import("../../src/tensor/tensor.js")).Tensor;
  expect(copy).not.toBe(Tensor);
  makers.set("another copy of insitu", (type, data, dims) => new copy(type, data as Float32Array, dims));
  if (!existsSync(common)) return;
  const peer = (await import(/* @vite-ignore */ common.href)) as { Tensor: new (...given: unknown[]) => TensorLike };
  makers.set("onnxruntime-common", (type, data, dims) => new peer.Tensor(type, data, dims));
});

describe.each(backends)("on %s", (backend) => {
  test("they are fed as our own are, and written", async () => {
    const session = await InferenceSession.create(model, { backend });
    expect(makers.size).toBeGreaterThanOrEqual(5);
    for (const [, make] of makers) {
      const { y, same, other, present } = await session.run(feedsOf(make));
      expect([...(y.data as Float32Array)]).toEqual([11, 22]);
      expect(same.data).toEqual(["a", "b"]);
      expect([...(other.data as Uint8Array)]).toEqual([0, 1]);
      expect([...(present.data as Float32Array)]).toEqual([7, 0, 0, 0]);
      const into = new Float32Array(2);
      const results = await session.run(feedsOf(make), { y: make("float32", into, [2]), same: null });
      expect(into).toEqual(Float32Array.of(11, 22));
      // A result is a tensor of insitu's, over the caller's array.
      expect(results["y"]).toBeInstanceOf(Tensor);
      expect(results["y"].data).toBe(into);
    }
    await session.release();
  });

  test("they are put into a state, and run with one", async () => {
    const session = await InferenceSession.create(model, { backend });
    for (const [, make] of makers) {
      const state = session.createState({ dims: { batch: 1, capacity: 4 } });
      state.set("past", make("float32", Float32Array.of(1, 2, 3, 4), [1, 4]));
      const { past: _, ...feeds } = feedsOf(make);
      const into = new Float32Array(2);
      await session.run(feeds, { y: make("float32", into, [2]) }, { state });
      expect(into).toEqual(Float32Array.of(11, 22));
      expect([...(state.get("past").data as Float32Array)]).toEqual([7, 2, 3, 4]);
    }
    await session.release();
  });

  test("what is nearly one is refused by name, and nothing is written", async () => {
    const session = await InferenceSession.create(model, { backend });
    const throwing = (name: string): object =>
      Object.defineProperty({ type: "float32", dims: [2], data: new Float32Array(2) }, name, {
        get: () => {
          throw new Error("not here");
        },
      });
    const device = { type: "float32", dims: [2], location: "gpu-buffer", getData: async () => new Float32Array(2) };
    const cases: readonly (readonly [unknown, RegExp])[] = [
      [plain("float32", new Float32Array(3), [2]), /: Tensor: float32\[2\] needs 2 entries of data, got 3/],
      [plain("float7", new Float32Array(2), [2]), /: Tensor: "float7" is not an element type of ONNX/],
      [
        plain("float32", new Int32Array(2), [2]),
        /: Tensor: data of type float32 must be a Float32Array, got an Int32Arr/,
      ],
      [
        { type: "float32", data: [1, 2], dims: [2] },
        /: Tensor: data of a tensor .* must be a typed array, got \[1,2\]/,
      ],
      [{ type: "float32", data: "12", dims: [2] }, /: Tensor: data of a tensor .* must be a typed array, got "12"/],
      [plain("float32", new Float32Array(2), 2 as never), /: Tensor: dims must be a number array, got 2/],
      [plain("float32", new Float32Array(2), [-2]), /: Tensor: dims must be non-negative integers/],
      [throwing("data"), /: Tensor: the data of a tensor .* cannot be read: .*; make a new Tensor/],
      [throwing("dims"), /: Tensor: the dims of a tensor .* cannot be read/],
      [throwing("type"), /: Tensor: the type of a tensor .* cannot be read/],
      [throwing("location"), /: Tensor: the location of a tensor .* cannot be read/],
      [device, /must be on the CPU, got one with location "gpu-buffer"; .*await tensor\.getData\(\)/],
      [
        { ...device, location: "texture", data: new Float32Array(2) },
        /must be on the CPU, got one with location "texture"/,
      ],
      [{ ...device, location: "none" }, /: Tensor: .* it was disposed/],
      [{ data: new Float32Array(2), dims: [2] }, /must be a Tensor/],
      [{ type: "float32", data: new Float32Array(2) }, /must be a Tensor/],
      [{ type: "float32", dims: [2] }, /must be a Tensor/],
      [new Float32Array(2), /must be a Tensor/],
      [new Proxy(new Tensor("float32", [1, 2], [2]), {}), /: Tensor: .* it was disposed, or is behind a proxy/],
    ];
    const feeds = feedsOf(plain);
    const into = Float32Array.of(-1, -1);
    for (const [odd, message] of cases) {
      const fed = session.run({ ...feeds, x: odd as TensorLike }, { y: plain("float32", into, [2]) });
      await expect(fed).rejects.toMatchObject({ name: "InsituError", message: expect.stringMatching(message) });
      await expect(fed).rejects.toThrow(/^input "x"/);
      const fetched = session.run(feeds, { y: odd as TensorLike });
      await expect(fetched).rejects.toMatchObject({ name: "InsituError", message: expect.stringMatching(message) });
      await expect(fetched).rejects.toThrow(/^fetches\["y"\]/);
      expect(into).toEqual(Float32Array.of(-1, -1));
    }
    await session.release();
  });

  test("a getter that takes another feed's memory away is noticed", async () => {
    const session = await InferenceSession.create(model, { backend });
    const feeds = feedsOf(plain);
    const thief = Object.defineProperty(plain("float32", [], [2]), "data", {
      get: () => {
        structuredClone(feeds["x"].data, { transfer: [(feeds["x"].data as Float32Array).buffer] });
        return new Float32Array(2);
      },
    });
    await expect(session.run({ ...feeds, z: thief })).rejects.toThrow(/input "x".*0 of its 2 entries/);
    await session.release();
  });
});
