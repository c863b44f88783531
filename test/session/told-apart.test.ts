// One symbol that is fed with several sizes, as onnxruntime allows it: shapes are found anew, and nothing that rests on the symbol being one
// size is believed. Compared with the graph as it is written, on the reference implementation with symbols of their own, and with onnxruntime.
import { expect, test } from "vitest";
import type { BackendName } from "../../src/entry/backends.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, graph, initializer, node, value } from "../../src/onnx/build.js";
import type { ModelNode, ModelValue } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { handOver, installed, openPeer, takeBack } from "../rewrite/peer.js";

const numbers = (dims: readonly number[], first = 1): Tensor => {
  const size = dims.reduce((product, dim) => product * dim, 1);
  return new Tensor(
    "float32",
    Float32Array.from({ length: size }, (_, at) => Math.sin(first + at)),
    dims,
  );
};

interface Trial {
  readonly name: string;
  /** Dimensions by input, with symbols. */
  readonly inputs: Readonly<Record<string, readonly (number | string)[]>>;
  readonly nodes: readonly ModelNode[];
  readonly output: ModelValue;
  readonly valueInfo?: readonly ModelValue[];
  /** Sizes that agree, and some that do not. */
  readonly fed: readonly Readonly<Record<string, readonly number[]>>[];
}

const attention: readonly ModelNode[] = [
  node("Transpose", ["k"], ["kt"], { perm: [0, 1, 3, 2] }),
  node("MatMul", ["q", "kt"], ["scores"]),
  node("Softmax", ["scores"], ["weights"], { axis: -1 }),
  node("MatMul", ["weights", "v"], ["y"]),
];

const trials: readonly Trial[] = [
  {
    name: "an Expand to the shape of another input is not left out",
    inputs: { x: ["n"], other: ["n"] },
    nodes: [node("Shape", ["other"], ["s"]), node("Expand", ["x", "s"], ["z"]), node("Neg", ["z"], ["y"])],
    output: value("y", "float32", ["n"]),
    fed: [
      { x: [3], other: [3] },
      { x: [1], other: [4] },
    ],
  },
  {
    name: "a Reshape to the shape of another input is not left out",
    inputs: { x: ["a", "b"], other: ["a", "b"] },
    nodes: [node("Shape", ["other"], ["s"]), node("Reshape", ["x", "s"], ["z"]), node("Neg", ["z"], ["y"])],
    output: value("y", "float32", ["a", "b"]),
    fed: [
      { x: [2, 3], other: [2, 3] },
      { x: [2, 6], other: [3, 4] },
    ],
  },
  {
    name: "a difference of sizes is not 0",
    inputs: { x: ["n"], other: ["n"] },
    nodes: [
      node("Shape", ["x"], ["a"]),
      node("Shape", ["other"], ["b"]),
      node("Sub", ["a", "b"], ["d"]),
      node("Cast", ["d"], ["y"], { to: 1 }),
    ],
    output: value("y", "float32", [1]),
    fed: [
      { x: [2], other: [2] },
      { x: [5], other: [2] },
    ],
  },
  {
    name: "what the file says of values in between is not believed",
    inputs: { x: ["n", 2], other: ["n", 2] },
    nodes: [
      node("Relu", ["x"], ["p"]),
      node("Relu", ["other"], ["q"]),
      node("Shape", ["q"], ["s"]),
      node("Expand", ["p", "s"], ["z"]),
      node("Neg", ["z"], ["y"]),
    ],
    valueInfo: [value("p", "float32", ["n", 2]), value("q", "float32", ["n", 2])],
    output: value("y", "float32", ["n", 2]),
    fed: [
      { x: [2, 2], other: [2, 2] },
      { x: [1, 2], other: [3, 2] },
    ],
  },
  {
    name: "attention of queries over another number of keys",
    inputs: { q: ["b", 2, "s", 4], k: ["b", 2, "s", 4], v: ["b", 2, "s", 4] },
    nodes: attention,
    output: value("y", "float32", ["b", 2, "s", 4]),
    fed: [
      { q: [1, 2, 3, 4], k: [1, 2, 3, 4], v: [1, 2, 3, 4] },
      { q: [2, 2, 3, 4], k: [2, 2, 5, 4], v: [2, 2, 5, 4] },
    ],
  },
  {
    name: "a product with ones of another input's shape, and a gate",
    inputs: { x: ["n", 4], other: ["n", 4] },
    nodes: [
      node("Shape", ["other"], ["s"]),
      node("ConstantOfShape", ["s"], ["zeros"]),
      node("Add", ["x", "zeros"], ["sum"]),
      node("Sigmoid", ["sum"], ["half"]),
      node("Mul", ["sum", "half"], ["gate"]),
      node("Mul", ["gate", "other"], ["y"]),
    ],
    output: value("y", "float32", ["n", 4]),
    fed: [
      { x: [2, 4], other: [2, 4] },
      { x: [1, 4], other: [3, 4] },
      { x: [3, 4], other: [1, 4] },
    ],
  },
  {
    name: "a branch declares shapes of its own",
    inputs: { x: ["n"], other: ["n"] },
    nodes: [
      node("If", ["yes"], ["y"], {
        then_branch: graph({
          nodes: [node("Shape", ["other"], ["s"]), node("Expand", ["x", "s"], ["z"]), node("Neg", ["z"], ["t"])],
          outputs: [value("t", "float32", ["n"])],
        }),
        else_branch: graph({ nodes: [node("Relu", ["x"], ["e"])], outputs: [value("e", "float32", ["n"])] }),
      }),
    ],
    output: value("y", "float32"),
    fed: [
      { x: [2], other: [2] },
      { x: [1], other: [4] },
    ],
  },
];

const modelOf = (
  { inputs, nodes, output, valueInfo = [] }: Trial,
  suffix: (input: string, dim: string) => string,
): Uint8Array =>
  writeModel(
    buildModel({
      opset: 17,
      inputs: Object.entries(inputs).map(([name, dims]) =>
        value(
          name,
          "float32",
          dims.map((dim) => (typeof dim === "string" ? suffix(name, dim) : dim)),
        ),
      ),
      outputs: [suffix("", "") === "" ? output : value(output.name, "float32")],
      valueInfo: suffix("", "") === "" ? valueInfo : [],
      initializers: [initializer("yes", "bool", [true], [])],
      nodes,
    }),
  );

const feedsOf = (dims: Readonly<Record<string, readonly number[]>>): Record<string, Tensor> =>
  Object.fromEntries(Object.entries(dims).map(([name, each], at) => [name, numbers(each, at)]));

for (const trial of trials)
  test(trial.name, async () => {
    const bytes = modelOf(trial, (_, dim) => dim);
    const oracle = await InferenceSession.create(
      modelOf(trial, (input, dim) => `${input}_${dim}`),
      { backend: "reference", graphOptimizationLevel: "disabled", inPlace: "never" },
    );
    const peer = installed ? await openPeer(bytes, { logSeverityLevel: 4 }) : undefined;
    for (const backend of ["reference", "wasm"] satisfies BackendName[]) {
      const session = await InferenceSession.create(bytes, { backend, threads: 1, presents: "keep" });
      // By turns: what one run found is not the other's.
      for (const dims of [...trial.fed, ...trial.fed]) {
        const feeds = feedsOf(dims);
        const { y } = await session.run(feeds);
        const expected = (await oracle.run(feeds))["y"];
        expect(y.dims).toEqual(expected.dims);
        const close = (other: Tensor): void =>
          (y.data as Float32Array).forEach((each, at) => expect(each).toBeCloseTo((other.data as Float32Array)[at], 5));
        close(expected);
        if (peer === undefined) continue;
        const answers = await peer.run(
          Object.fromEntries(Object.entries(feeds).map(([name, each]) => [name, handOver(each)])),
        );
        expect(y.dims).toEqual(answers["y"].dims);
        close(takeBack(answers["y"]));
        // Into a tensor of the caller's, by name.
        const target = new Tensor("float32", new Float32Array(y.size), y.dims);
        await session.run(feeds, { y: target });
        close(target);
      }
      await session.release();
    }
    await oracle.release();
    await peer?.release();
  });

test("where the graph does not allow it, the node that cannot is named", async () => {
  const trial: Trial = {
    name: "",
    inputs: { x: ["n"], other: ["n"] },
    nodes: [node("Add", ["x", "other"], ["y"], {}, { name: "sum" })],
    output: value("y", "float32", ["n"]),
    fed: [],
  };
  const session = await InferenceSession.create(
    modelOf(trial, (_, dim) => dim),
    { backend: "wasm", threads: 1 },
  );
  await expect(session.run(feedsOf({ x: [2], other: [3] }))).rejects.toThrow(
    /Add "sum": shapes \[2\] and \[3\] do not broadcast/,
  );
  const { y } = await session.run(feedsOf({ x: [1], other: [3] }));
  expect(y.dims).toEqual([3]);
  await session.release();
});
