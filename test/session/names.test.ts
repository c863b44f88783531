// Inputs, outputs and caches whose names mean something to JavaScript's objects, or to `run`: they are names like others.
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";

const names = ["__proto__", "constructor", "toString", "hasOwnProperty", "then", "__defineGetter__", "length", "state"];
const backends = ["wasm", "reference"] as const;
const row = (first: number): Tensor => new Tensor("float32", [first, first + 1], [1, 1, 2]);
const numbers = (tensor: Tensor): number[] => [...(tensor.data as Float32Array)];

/** One input and one cache of each name: `result N` is twice the input, which is also what the cache takes. */
const byInput = (name: string): Uint8Array =>
  writeModel(
    buildModel({
      nodes: [
        ...names.map((input, at) => node("Add", [input, input], [`result ${at}`])),
        node("TensorScatter", [name, names.find((input) => input !== name)!, "w"], ["present"], { axis: 1 }),
      ],
      inputs: [
        ...names.map((input) => value(input, "float32", ["batch", input === name ? "capacity" : 1, 2])),
        value("w", "int64", ["batch"]),
      ],
      outputs: [...names.map((_, at) => value(`result ${at}`)), value("present")],
      opset: 24,
    }),
  );

/** Outputs of each name: N times u. */
const byOutput = writeModel(
  buildModel({
    nodes: [
      ...names.map((name, at) => node("Mul", ["u", `factor ${at}`], [name])),
      node("TensorScatter", ["past", "u", "w"], ["present"], { axis: 1 }),
    ],
    inputs: [
      value("u", "float32", ["batch", 1, 2]),
      value("w", "int64", ["batch"]),
      value("past", "float32", ["batch", "capacity", 2]),
      ...names.map((_, at) => value(`factor ${at}`, "float32", [])),
    ],
    outputs: [...names.map((name) => value(name)), value("present")],
    opset: 24,
  }),
);

test.each(backends)("inputs and caches on %s", async (backend) => {
  for (const cache of names) {
    const session = await InferenceSession.create(byInput(cache), { backend, threads: 1 });
    const others = names.filter((name) => name !== cache);
    const state = session.createState({ shapes: Object.fromEntries([[cache, [1, 3, 2]]]) });
    const feeds = Object.fromEntries(others.map((name) => [name, row(names.indexOf(name))]));
    const results = await session.run(feeds, { state });
    for (const name of others) {
      const at = names.indexOf(name);
      expect(numbers(results[`result ${at}`])).toEqual([2 * at, 2 * at + 2]);
      // What an object has from its prototype is no feed.
      const without = Object.fromEntries(Object.entries(feeds).filter(([given]) => given !== name));
      await expect(session.run(without, { state })).rejects.toMatchObject({
        code: "invalid-feed",
        message: expect.stringContaining(`input "${name}"`),
      });
    }
    const first = names.indexOf(others[0]);
    expect(numbers(state.get(cache))).toEqual([first, first + 1, 0, 0, 0, 0]);
    const other = session.createState({ dims: Object.fromEntries([[cache, [1, 3, 2]]]) });
    await other.restore(await state.save());
    expect(numbers(other.get(cache))).toEqual(numbers(state.get(cache)));
    other.set(cache, new Tensor("float32", [1, 2, 3, 4, 5, 6], [1, 3, 2]));
    expect(numbers(other.get(cache))).toEqual([1, 2, 3, 4, 5, 6]);
    expect(JSON.parse(JSON.stringify(session.explain({ json: true }))).states[0].input).toBe(cache);
    await session.release();
  }
});

test.each(backends)("outputs on %s", async (backend) => {
  const session = await InferenceSession.create(byOutput, { backend, threads: 1 });
  const factors = names.map((_, at) => [`factor ${at}`, new Tensor("float32", [at], [])] as const);
  const feeds = { u: row(1), ...Object.fromEntries(factors) };
  const state = session.createState({ dims: { batch: 1, capacity: 8 } });
  const check = (results: Record<string, Tensor>): void => {
    expect(Object.keys(results).toSorted()).toEqual(names.toSorted());
    names.forEach((name, at) => {
      expect(Object.hasOwn(results, name)).toBe(true);
      expect(numbers(results[name])).toEqual([at, at * 2]);
    });
  };
  check(await session.run(feeds, { state }));
  check(await session.run(feeds, names, { state }));
  check(await session.run(feeds, Object.fromEntries(names.map((name) => [name, null])), { state }));
  const targets = Object.fromEntries(names.map((name) => [name, row(0)]));
  const filled = await session.run(feeds, targets, { state });
  check(filled);
  for (const name of names) expect(filled[name]).toBe(targets[name]);
  expect(state.lengths).toEqual([4]);
  // Without options the second argument's `state` is the output, where it is no state.
  const past = new Tensor("float32", new Float32Array(4), [1, 2, 2]);
  const whole = { ...feeds, past, w: new Tensor("int64", [0n], [1]) };
  expect(Object.keys(await session.run(whole, { state: null }))).toEqual(["state"]);
  await session.release();
});
