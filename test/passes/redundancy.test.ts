// What changes nothing is removed, what is computed twice is computed once, Transposes in a row become one; and what stays.
import { expect, test } from "vitest";
import { initializer, node, value } from "../../src/onnx/build.js";
import type { ModelNode } from "../../src/onnx/model.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { constant, expectSameResults, list, modelOf, operatorsOf } from "./support.js";

const dims = { n: 3 };
const constants = [
  constant("one", 1),
  constant("ones", [1, 1, 1, 1]),
  constant("two", 2),
  initializer("true", "bool", [true], [1]),
  initializer("false", "bool", [false], [1]),
  list("shape", -1, 4),
  list("unit", 1, 1),
  list("zero", 0),
  list("minus_one", -1),
  list("end", Number.MAX_SAFE_INTEGER),
  list("back", -Number.MAX_SAFE_INTEGER),
  list("axis", 0),
];

/** The operators left of nodes from x: float32[n,4] (and b: bool[n,4]) to a Neg or Not that makes y. */
const left = (nodes: readonly ModelNode[], last = "z", final = "Neg"): string[] => {
  const model = modelOf({
    inputs: { x: ["n", 4], b: value("b", "bool", ["n", 4]) },
    outputs: ["y"],
    constants,
    nodes: [...nodes, node(final, [last], ["y"])],
  });
  return operatorsOf(model);
};

test("removed: no-ops of every kind", () => {
  const noOps: readonly (readonly ModelNode[])[] = [
    [node("Identity", ["x"], ["z"])],
    [node("Cast", ["x"], ["z"], { to: 1 })],
    [node("Reshape", ["x", "shape"], ["z"])],
    [node("Expand", ["x", "unit"], ["z"])],
    [node("Tile", ["x", "unit"], ["z"])],
    [node("Transpose", ["x"], ["z"], { perm: [0, 1] })],
    [node("Concat", ["x"], ["z"], { axis: 0 })],
    [node("Slice", ["x", "zero", "end", "axis"], ["z"])],
    [node("Mul", ["x", "one"], ["z"])],
    [node("Mul", ["one", "x"], ["z"])],
    [node("Div", ["x", "one"], ["z"])],
    [node("Dropout", ["x"], ["z"])],
    [node("Unsqueeze", ["x", "axis"], ["w"]), node("Squeeze", ["w", "axis"], ["z"])],
    [node("Cast", ["x"], ["w"], { to: 11 }), node("Cast", ["w"], ["z"], { to: 1 })],
    [node("Transpose", ["x"], ["w"], { perm: [1, 0] }), node("Transpose", ["w"], ["z"])],
  ];
  for (const nodes of noOps) expect(left(nodes), nodes[0].opType).toEqual(["Neg"]);
  expect(left([node("And", ["b", "true"], ["z"])], "z", "Not")).toEqual(["Not"]);
  expect(left([node("Or", ["false", "b"], ["z"])], "z", "Not")).toEqual(["Not"]);
});

test("kept: what only looks like a no-op", () => {
  const effective: readonly (readonly ModelNode[])[] = [
    [node("Cast", ["x"], ["w"], { to: 10 }), node("Cast", ["w"], ["z"], { to: 1 })],
    [node("Slice", ["x", "minus_one", "back", "axis", "minus_one"], ["z"])],
    [node("Mul", ["x", "two"], ["z"])],
    [node("Div", ["one", "x"], ["z"])],
    [node("Unsqueeze", ["x", "axis"], ["z"])],
    [node("Transpose", ["x"], ["z"])],
  ];
  for (const nodes of effective) expect(left(nodes)).toEqual([...nodes.map(({ opType }) => opType), "Neg"]);
  expect(left([node("And", ["b", "false"], ["z"])], "z", "Not")).toEqual(["And", "Not"]);
});

test("kept: a no-op that makes a graph output, with its name", async () => {
  const model = modelOf({
    inputs: { x: ["n", 4] },
    outputs: ["y", "same"],
    nodes: [node("Identity", ["x"], ["same"]), node("Neg", ["same"], ["y"])],
  });
  expect(operatorsOf(model)).toEqual(["Identity", "Neg"]);
  await expectSameResults(model, dims);
});

test("computed once: equal nodes, also behind equal nodes", async () => {
  const model = modelOf({
    inputs: { x: ["n", 4] },
    outputs: ["y"],
    nodes: [
      ...["a", "b"].flatMap((name) => [node("Cos", ["x"], [name]), node("Exp", [name], [`${name}2`])]),
      node("Sub", ["a2", "b2"], ["d"]),
      node("Add", ["d", "b2"], ["y"]),
    ],
  });
  expect(operatorsOf(model)).toEqual(["Cos", "Exp", "Sub", "Add"]);
  await expectSameResults(model, dims);
});

test("computed as often as written: chance, other attributes, graph outputs, and what is updated", async () => {
  const twice = (nodes: (name: string) => readonly ModelNode[], outputs = ["y"]): string[] =>
    operatorsOf(
      modelOf({
        inputs: { x: ["n", 4], row: [1, 4] },
        outputs,
        opset: 24,
        constants: [constant("ratio", 0.5), initializer("training", "bool", [true], [])],
        nodes: [...nodes("a"), ...nodes("b"), node("Add", ["a", "b"], ["y"])],
      }),
    );
  expect(twice((name) => [node("Dropout", ["x", "ratio", "training"], [name])])).toHaveLength(3);
  expect(
    twice((name) => [
      node("Cast", ["x"], [`${name}_`], { to: name === "a" ? 7 : 6 }),
      node("Cast", [`${name}_`], [name], { to: 1 }),
    ]),
  ).toHaveLength(5);
  expect(twice((name) => [node("Cos", ["x"], [name])], ["y", "a", "b"])).toHaveLength(3);
  // Each of the two is written in place: one would have to be copied if they were made once.
  const model = modelOf({
    inputs: { x: ["n", 2, 4], row: ["n", 1, 4] },
    outputs: ["y"],
    opset: 24,
    nodes: [
      ...["a", "b"].flatMap((name) => [
        node("Exp", ["x"], [`${name}_empty`]),
        node("TensorScatter", [`${name}_empty`, "row"], [name]),
      ]),
      node("Add", ["a", "b"], ["y"]),
    ],
  });
  expect(operatorsOf(model).filter((name) => name === "Exp")).toHaveLength(2);
  const session = await InferenceSession.create(writeModel(model), { backend: "reference", inPlace: "require" });
  expect(session.explain({ json: true }).caches.every(({ inPlace }) => inPlace)).toBe(true);
});

test("Transposes in a row become one, and an inner one that others read stays", async () => {
  const turn = (from: string, to: string, ...perm: readonly number[]): ModelNode =>
    node("Transpose", [from], [to], { perm });
  const model = modelOf({
    inputs: { x: ["n", 2, 4] },
    outputs: ["y"],
    nodes: [turn("x", "a", 0, 2, 1), turn("a", "b", 1, 0, 2), turn("b", "y", 2, 0, 1)],
  });
  expect(operatorsOf(model)).toEqual(["Transpose"]);
  await expectSameResults(model, dims);
  const shared = modelOf({
    inputs: { x: ["n", 2, 4] },
    outputs: ["y", "a"],
    nodes: [turn("x", "a", 0, 2, 1), turn("a", "b", 0, 2, 1), node("Neg", ["b"], ["y"])],
  });
  expect(operatorsOf(shared)).toEqual(["Transpose", "Neg"]);
  await expectSameResults(shared, dims);
});

test("levels: none, what is redundant, all", async () => {
  const bytes = writeModel(
    modelOf({
      inputs: { x: ["n", 4] },
      outputs: ["y"],
      nodes: [
        node("Identity", ["x"], ["same"]),
        node("Sigmoid", ["same"], ["gate"]),
        node("Mul", ["same", "gate"], ["y"]),
      ],
    }),
  );
  const steps = async (
    graphOptimizationLevel?: "disabled" | "basic" | "extended" | "layout" | "all",
  ): Promise<string> => {
    const session = await InferenceSession.create(bytes, {
      backend: "reference",
      ...(graphOptimizationLevel === undefined ? {} : { graphOptimizationLevel }),
    });
    return session
      .explain({ json: true })
      .steps.map(({ op }) => op)
      .join(" ");
  };
  expect(await steps("disabled")).toBe("Identity Sigmoid Mul");
  expect(await steps("basic")).toBe("Sigmoid Mul");
  for (const level of ["extended", "layout", "all", undefined] as const) expect(await steps(level)).toBe("Swish");
  await expect(steps("most" as "all")).rejects.toThrow('graphOptimizationLevel must be "disabled", "basic"');
});
