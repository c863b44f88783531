// The two writes of a layer become one node where nothing stands between them; wherever one write needs the other, or another node reads a past, they stay.
// Results and caches are those of the graph as it is.
import { expect, test } from "vitest";
import { node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { preparedGraphOf } from "../../src/session/load.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { modelOf, operatorsOf } from "./support.js";
import { WideSession } from "./wide-session.js";

const cache = (name: string, rows: number | string = "capacity"): ReturnType<typeof value> =>
  value(name, "float32", ["batch", 2, rows, 4]);

const write = (which: string, to = which, attributes: Record<string, number | string> = {}): ModelNode =>
  node("TensorScatter", [`past_${which}`, to, "at"], [`present_${which}`], { axis: 2, ...attributes });

/** A layer of these nodes, with two pasts and rows for them. */
const layer = (nodes: readonly ModelNode[], outputs: readonly string[] = [], pastValue = cache("past_value")): Model =>
  modelOf({
    opset: 24,
    inputs: {
      past_key: cache("past_key"),
      past_value: pastValue,
      key: cache("key", "rows"),
      value: cache("value", "rows"),
      at: value("at", "int64", ["batch"]),
      elsewhere: value("elsewhere", "int64", ["batch"]),
    },
    outputs: ["present_key", "present_value", ...outputs],
    nodes,
  });

const made = (model: Model): readonly string[] =>
  preparedGraphOf(model, "all", () => true).graph.nodes.map(({ op }) => op.name);

test("paired: two writes of one shape at the same indices, whatever stands between them", () => {
  expect(made(layer([write("key"), write("value")]))).toEqual(["PairedTensorScatter"]);
  const turned = [node("Neg", ["value"], ["turned"]), write("value", "turned")];
  expect(made(layer([write("key"), ...turned]))).toEqual(["Neg", "PairedTensorScatter"]);
  const read = [write("key"), node("Exp", ["present_key"], ["read"]), write("value", "value", { axis: -2 })];
  expect(made(layer(read, ["read"]))).toEqual(["PairedTensorScatter", "Exp"]);
});

test("not paired on a backend that has no kernel for it", () => {
  expect(operatorsOf(layer([write("key"), write("value")]))).toEqual(["TensorScatter", "TensorScatter"]);
});

test("not paired: writes that differ, that need each other, or whose past is read elsewhere", () => {
  const apart = (nodes: readonly ModelNode[], outputs: readonly string[] = [], past = cache("past_value")): void =>
    expect(made(layer(nodes, outputs, past)).filter((name) => name === "TensorScatter")).toHaveLength(2);
  apart([write("key"), node("TensorScatter", ["past_value", "value", "elsewhere"], ["present_value"], { axis: 2 })]);
  apart([write("key"), write("value", "value", { mode: "circular" })]);
  apart([write("key"), write("value")], [], cache("past_value", 9));
  const needed = [
    write("key"),
    node("ReduceMax", ["present_key"], ["largest"], { keepdims: 0 }),
    node("Mul", ["value", "largest"], ["scaled"]),
    write("value", "scaled"),
  ];
  apart(needed);
  apart([node("Exp", ["past_key"], ["before"]), write("key"), write("value")], ["before"]);
});

test.each(["linear", "circular"])("results and caches are those of the graph as it is, %s", async (mode) => {
  const model = writeModel(layer([write("key", "key", { mode }), write("value", "value", { mode })]));
  const plain = await WideSession.create(model, { backend: "reference", graphOptimizationLevel: "disabled" });
  const paired = await WideSession.create(model, { backend: "wide", inPlace: "require" });
  expect(paired.explain()).toContain("PairedTensorScatter");
  const pairs = { past_key: "present_key", past_value: "present_value" };
  const states = [plain, paired].map((session) => session.createState({ pairs, dims: { batch: 2, capacity: 5 } }));
  let number = 1;
  for (const [rows, at] of [
    [3, [0, 1]],
    [1, [3, 4]],
    [1, mode === "linear" ? [4, 0] : [5, 9]],
  ] as const) {
    const rowsOf = (): Tensor =>
      new Tensor(
        "float32",
        Float32Array.from({ length: 16 * rows }, () => number++),
        [2, 2, rows, 4],
      );
    const feeds = {
      key: rowsOf(),
      value: rowsOf(),
      at: new Tensor("int64", BigInt64Array.from(at, BigInt), [2]),
      elsewhere: new Tensor("int64", new BigInt64Array(2), [2]),
    };
    const run = [plain, paired].map((session, which) => session.run(feeds, ["present_key"], { state: states[which] }));
    await Promise.all(run);
    for (const name of ["past_key", "past_value"]) {
      const [expected, found] = await Promise.all(states.map((state) => state.get(name).getData()));
      expect(found).toEqual(expected);
    }
  }
});
