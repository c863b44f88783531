// Gelu, Swish and SwiGLU as exporters write them out, and what must not be taken for them.
import { expect, test } from "vitest";
import { initializer, node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelTensor } from "../../src/onnx/model.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { tensorOf } from "./near-misses/draft.js";
import { constant, expectLeftAlone, expectSameResults, modelOf, onlyNode, operatorsOf, optimized } from "./support.js";

const dims = { batch: 2 };
const shape = ["batch", 8] as const;
const constants: readonly ModelTensor[] = [
  constant("half", 0.5),
  constant("one", 1),
  constant("two", 2),
  constant("three", 3),
  constant("root_two", Math.SQRT2),
  constant("inverse_root_two", Math.SQRT1_2),
  constant("root", Math.sqrt(2 / Math.PI)),
  constant("cubic", 0.044715),
  constant("quick", 1.702),
];

const model = (nodes: readonly ModelNode[], changes: readonly ModelTensor[] = [], outputs = ["y"]): Model =>
  modelOf({
    inputs: { x: shape, other: shape },
    outputs,
    nodes,
    constants: [...constants.filter(({ name }) => !changes.some((change) => change.name === name)), ...changes],
  });

const error = (divide: ModelNode): ModelNode[] => [
  divide,
  node("Erf", ["scaled"], ["erf"]),
  node("Add", ["erf", "one"], ["above"]),
];
const byDiv = error(node("Div", ["x", "root_two"], ["scaled"]));
const byMul = error(node("Mul", ["inverse_root_two", "x"], ["scaled"]));
const cubed: readonly ModelNode[] = [
  node("Pow", ["x", "three"], ["cube"]),
  node("Mul", ["cubic", "cube"], ["small"]),
  node("Add", ["x", "small"], ["inner"]),
  node("Mul", ["inner", "root"], ["angle"]),
  node("Tanh", ["angle"], ["tanh"]),
  node("Add", ["one", "tanh"], ["above"]),
];
const unfolded: readonly ModelNode[] = [
  node("Mul", ["x", "root"], ["linear"]),
  node("Mul", ["x", "cubic"], ["small"]),
  node("Mul", ["small", "x"], ["square"]),
  node("Add", ["square", "one"], ["inner"]),
  node("Mul", ["linear", "inner"], ["angle"]),
  node("Tanh", ["angle"], ["tanh"]),
  node("Add", ["tanh", "one"], ["above"]),
];
const endings: readonly (readonly ModelNode[])[] = [
  [node("Mul", ["half", "above"], ["rest"]), node("Mul", ["x", "rest"], ["y"])],
  [node("Mul", ["x", "half"], ["rest"]), node("Mul", ["rest", "above"], ["y"])],
  [node("Mul", ["above", "x"], ["rest"]), node("Mul", ["rest", "half"], ["y"])],
  [node("Mul", ["x", "above"], ["rest"]), node("Div", ["rest", "two"], ["y"])],
];

test("Gelu by the error function and by tanh, in every grouping", async () => {
  for (const [start, approximate] of [
    [byDiv, "none"],
    [byMul, "none"],
    [cubed, "tanh"],
    [unfolded, "tanh"],
  ] as const) {
    for (const ending of endings) {
      const written = model([...start, ...ending]);
      expect(operatorsOf(written)).toEqual(["Gelu"]);
      expect(onlyNode(optimized(written), "Gelu").attrs["approximate"]).toBe(approximate);
      await expectSameResults(written, dims);
    }
  }
});

test("no Gelu: other constants, another value inside, inner results that others need", () => {
  for (const wrong of [constant("half", 0.51), constant("one", 1.001), constant("root_two", 1.41)])
    expectLeftAlone(model([...byDiv, ...endings[1]], [wrong]));
  for (const wrong of [constant("cubic", 0.0447), constant("root", 0.8), constant("three", 2), constant("half", 0.501)])
    expectLeftAlone(model([...cubed, ...endings[1]], [wrong]));
  expectLeftAlone(model([...error(node("Div", ["other", "root_two"], ["scaled"])), ...endings[0]]));
  for (const inner of ["erf", "above", "rest"]) expectLeftAlone(model([...byDiv, ...endings[0]], [], ["y", inner]));
});

/** Nodes that read x, in another type, with constants of that type. */
const typed = (type: ElementType, nodes: readonly ModelNode[], numbers: Readonly<Record<string, number>>): Model =>
  modelOf({
    inputs: { x: value("x", type, shape) },
    outputs: ["y"],
    nodes,
    constants: Object.entries(numbers).map(([name, number]) => initializer(name, tensorOf(type, [], [number]))),
  });

test("constants are the numbers themselves, rounded to their type", () => {
  const numbers = { half: 0.5, one: 1, root_two: Math.SQRT2 };
  const gelu = [...byDiv, ...endings[1]];
  for (const [type, step] of [
    ["float16", 2 ** -10],
    ["bfloat16", 2 ** -7],
  ] as const) {
    expect(operatorsOf(typed(type, gelu, numbers))).toEqual(["Gelu"]);
    for (const [name, number] of Object.entries(numbers))
      expectLeftAlone(typed(type, gelu, { ...numbers, [name]: number * (1 + step) }));
  }
  expect(operatorsOf(typed("float64", gelu, numbers))).toEqual(["Gelu"]);
  expectLeftAlone(typed("float64", gelu, { ...numbers, root_two: Math.fround(Math.SQRT2) }));
});

const sigmoid = node("Sigmoid", ["x"], ["gate"]);

test("a slope in float64 stays where an attribute of 32 bits would round it", () => {
  const steep = [
    node("Mul", ["x", "quick"], ["steep"]),
    node("Sigmoid", ["steep"], ["gate"]),
    node("Mul", ["x", "gate"], ["y"]),
  ];
  expect(operatorsOf(typed("float64", steep, { quick: 1.75 }))).toEqual(["Swish"]);
  expectLeftAlone(typed("float64", steep, { quick: 1.702 }));
});

test("Swish, with and without a slope", async () => {
  const plain = model([sigmoid, node("Mul", ["x", "gate"], ["y"])]);
  expect(operatorsOf(plain)).toEqual(["Swish"]);
  await expectSameResults(plain, dims);
  const quick = model([
    node("Mul", ["x", "quick"], ["steep"]),
    node("Sigmoid", ["steep"], ["gate"]),
    node("Mul", ["gate", "x"], ["y"]),
  ]);
  expect(onlyNode(optimized(quick), "Swish").attrs["alpha"]).toBeCloseTo(1.702);
  await expectSameResults(quick, dims);
});

test("no Swish: another factor, or a sigmoid that others need", () => {
  expectLeftAlone(model([sigmoid, node("Mul", ["other", "gate"], ["y"])]));
  expectLeftAlone(model([sigmoid, node("Mul", ["x", "gate"], ["y"])], [], ["y", "gate"]));
});

test("SwiGLU where both have one shape, else Swish and Mul", async () => {
  const gated = model([sigmoid, node("Mul", ["x", "gate"], ["silu"]), node("Mul", ["other", "silu"], ["y"])]);
  expect(operatorsOf(gated)).toEqual(["SwiGLU"]);
  await expectSameResults(gated, dims);
  const row = modelOf({
    inputs: { x: shape, other: [1, 8] },
    outputs: ["y"],
    nodes: [sigmoid, node("Mul", ["x", "gate"], ["silu"]), node("Mul", ["silu", "other"], ["y"])],
  });
  expect(operatorsOf(row)).toEqual(["Swish", "Mul"]);
  await expectSameResults(row, dims);
  const shown = model(
    [sigmoid, node("Mul", ["x", "gate"], ["silu"]), node("Mul", ["silu", "other"], ["y"])],
    [],
    ["y", "silu"],
  );
  expect(operatorsOf(shown)).toEqual(["Swish", "Mul"]);
});
