// Models that break ONNX's rules, by accident or on purpose: each is refused with an InsituError that names node, rule and value,
// quickly and without taking memory that the file does not pay for.
import { describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, graph, initializer, modelFunction, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { soak } from "../support/soak.js";

/** Milliseconds; in the tests only a hang takes longer. */
const longest = soak ? 1_000 : 60_000;

type Parts = Parameters<typeof buildModel>[0];

const x = value("x", "float32", [2, 3]);
const y = value("y", "float32");
const model = (parts: Partial<Parts>): Model =>
  buildModel({ opset: 21, inputs: [x], outputs: [y], nodes: [node("Relu", ["x"], ["y"])], ...parts });

async function refusal(source: Model | Uint8Array): Promise<InsituError> {
  const started = performance.now();
  try {
    await InferenceSession.create(source instanceof Uint8Array ? source : writeModel(source), { backend: "reference" });
  } catch (error) {
    expect(error, String(error)).toBeInstanceOf(InsituError);
    expect(performance.now() - started).toBeLessThan(longest);
    return error as InsituError;
  }
  throw new Error("the model was accepted");
}

const named = (
  op: string,
  inputs: string[],
  outputs: string[],
  attributes: Parameters<typeof node>[3] = {},
): ReturnType<typeof node> => node(op, inputs, outputs, attributes, { name: `the_${op}` });

const bad: readonly [name: string, model: Partial<Parts>, message: RegExp][] = [
  [
    "a cycle",
    { nodes: [named("Add", ["x", "b"], ["a"]), named("Relu", ["a"], ["b"]), named("Neg", ["b"], ["y"])] },
    /Add "the_Add".*cyclic/,
  ],
  [
    "nodes out of order",
    { nodes: [named("Neg", ["a"], ["y"]), named("Relu", ["x"], ["a"])] },
    /Neg "the_Neg": input "a" is computed only later, by Relu "the_Relu"/,
  ],
  [
    "an input that nothing makes",
    { nodes: [named("Add", ["x", "nowhere"], ["y"])] },
    /Add "the_Add": input "nowhere" is no graph input/,
  ],
  ["an output that nothing makes", { outputs: [value("z", "float32")] }, /output "z" is computed by no node/],
  [
    "an unknown operator",
    { nodes: [named("Rellu", ["x"], ["y"])] },
    /Rellu "the_Rellu": operator Rellu of domain ai\.onnx, opset 21, is not supported; the nearest supported one is Relu/,
  ],
  [
    "an unknown domain",
    { nodes: [node("Relu", ["x"], ["y"], {}, { domain: "my.own" })] },
    /operator Relu of domain my\.own/,
  ],
  [
    "an operator newer than the opset",
    { nodes: [named("TensorScatter", ["x", "x"], ["y"])] },
    /TensorScatter.*opset 21.*supported from opset 24 on/,
  ],
  ["an opset newer than known", { opset: 99 }, /opset 99; the newest known is 28/],
  ["a wrong element type", { inputs: [value("x", "string", [2])] }, /Relu of "y": X must be .*got tensor\(string\)/],
  [
    "operands of two types",
    { inputs: [x, value("k", "int64", [2, 3])], nodes: [named("Add", ["x", "k"], ["y"])] },
    /Add "the_Add": B must have the type of the other operands of T, tensor\(float\), got tensor\(int64\)/,
  ],
  [
    "shapes that do not broadcast",
    { inputs: [x, value("w", "float32", [2, 4])], nodes: [named("Add", ["x", "w"], ["y"])] },
    /Add "the_Add": shapes \[2,3\] and \[2,4\] do not broadcast: 3 against 4/,
  ],
  ["inner dimensions that differ", { nodes: [named("MatMul", ["x", "x"], ["y"])] }, /MatMul "the_MatMul".*3.*2/],
  ["too few inputs", { nodes: [named("Add", ["x"], ["y"])] }, /Add "the_Add": input B is missing/],
  ["too many inputs", { nodes: [named("Relu", ["x", "x"], ["y"])] }, /Relu "the_Relu": takes at most 1 inputs, got 2/],
  [
    "an unknown attribute",
    { nodes: [named("Relu", ["x"], ["y"], { slope: 1 })] },
    /Relu "the_Relu": unknown attribute "slope"/,
  ],
  [
    "a missing attribute",
    { nodes: [named("Concat", ["x", "x"], ["y"])] },
    /Concat "the_Concat": attribute "axis" is required/,
  ],
  [
    "an attribute of the wrong kind",
    { nodes: [named("Concat", ["x", "x"], ["y"], { axis: "first" })] },
    /attribute "axis" must be an integer.*got string first/,
  ],
  [
    "an axis out of range",
    { nodes: [named("Concat", ["x", "x"], ["y"], { axis: 2 })] },
    /axis must lie in \[-2, 1\] for rank 2, got 2/,
  ],
  [
    "a duplicate output name",
    { nodes: [named("Relu", ["x"], ["y"]), named("Neg", ["x"], ["y"])] },
    /output of Neg "the_Neg" "y" has a name that is taken already/,
  ],
  [
    "an output named as an input",
    { nodes: [named("Relu", ["x"], ["x"])], outputs: [value("x", "float32")] },
    /name that is taken/,
  ],
  [
    "a duplicate initializer",
    { initializers: [initializer("w", "float32", [1], [1]), initializer("w", "float32", [2], [1])] },
    /initializer "w" is there twice/,
  ],
  [
    "a sequence",
    { inputs: [value("x", { kind: "sequence", element: { kind: "tensor", elementType: "float32" } })] },
    /input "x" holds values of kind "sequence"/,
  ],
  [
    "a function that calls itself",
    {
      opset: { "": 21, local: 1 },
      nodes: [node("Loopy", ["x"], ["y"], {}, { domain: "local" })],
      functions: [
        modelFunction({
          domain: "local",
          name: "Loopy",
          inputs: ["a"],
          outputs: ["b"],
          nodes: [node("Loopy", ["a"], ["b"], {}, { domain: "local" })],
          opset: { "": 21, local: 1 },
        }),
      ],
    },
    /function local::Loopy calls itself: local::Loopy → local::Loopy/,
  ],
  [
    "a Reshape to another size",
    { initializers: [initializer("s", "int64", [4n, 2n], [2])], nodes: [named("Reshape", ["x", "s"], ["y"])] },
    /Reshape "the_Reshape".*\[2,3\]|Reshape "the_Reshape".*6/,
  ],
  [
    "dims whose product overflows",
    {
      inputs: [value("x", "float32", [2 ** 30, 2 ** 30])],
      nodes: [named("Relu", ["x"], ["a"]), named("Relu", ["a"], ["y"])],
      initializers: [initializer("s", "int64", [2n ** 40n, 2n ** 40n], [2])],
    },
    /./,
  ],
];

describe("models that are wrong", () => {
  for (const [name, parts, message] of bad.slice(0, -1)) {
    test(name, async () => {
      expect((await refusal(model(parts))).message).toMatch(message);
    });
  }

  test("bodies nested too deep, and bodies that capture what does not exist", async () => {
    const nest = (depth: number): ReturnType<typeof graph> =>
      graph({
        name: `g${depth}`,
        outputs: [value(`o${depth}`, "float32")],
        nodes: [
          depth === 0
            ? node("Relu", ["x"], ["o0"])
            : node("If", ["c"], [`o${depth}`], { then_branch: nest(depth - 1), else_branch: nest(0) }),
        ].map((entry) => (depth === 0 ? { ...entry, outputs: [`o0`] } : entry)),
      });
    const deep = model({
      inputs: [x, value("c", "bool", [])],
      nodes: [node("If", ["c"], ["y"], { then_branch: nest(80), else_branch: nest(0) })],
    });
    expect((await refusal(deep)).message).toMatch(/nest|deep/);
    const dangling = graph({ name: "g", outputs: [value("o", "float32")], nodes: [named("Relu", ["missing"], ["o"])] });
    expect(
      (
        await refusal(
          model({
            inputs: [x, value("c", "bool", [])],
            nodes: [node("If", ["c"], ["y"], { then_branch: dangling, else_branch: dangling })],
          }),
        )
      ).message,
    ).toMatch(/"missing"/);
  });

  test("functions that expand without end", async () => {
    const functions = Array.from({ length: 40 }, (_, level) =>
      modelFunction({
        domain: "local",
        name: `F${level}`,
        inputs: ["a"],
        outputs: ["b"],
        opset: { "": 21, local: 1 },
        nodes:
          level === 39
            ? [node("Relu", ["a"], ["b"])]
            : [
                node(`F${level + 1}`, ["a"], ["m"], {}, { domain: "local" }),
                node(`F${level + 1}`, ["m"], ["b"], {}, { domain: "local" }),
              ],
      }),
    );
    expect(
      (
        await refusal(
          model({ opset: { "": 21, local: 1 }, nodes: [node("F0", ["x"], ["y"], {}, { domain: "local" })], functions }),
        )
      ).message,
    ).toMatch(/expand to more than/);
  });

  test("constants that would be far larger than the file", async () => {
    const huge = initializer("s", "int64", [2n ** 31n, 2n ** 31n], [2]);
    const session = InferenceSession.create(
      writeModel(model({ initializers: [huge], nodes: [named("ConstantOfShape", ["s"], ["y"])], inputs: [] })),
    );
    await expect(session.then((loaded) => loaded.run({}))).rejects.toMatchObject({
      name: "InsituError",
      code: "out-of-memory",
    });
  });
});

describe("feeds that are wrong", () => {
  const create = (): Promise<InferenceSession> =>
    InferenceSession.create(
      writeModel(
        model({
          inputs: [value("x", "float32", ["n", 3]), value("z", "float32", ["n", 3])],
          nodes: [named("Add", ["x", "z"], ["y"])],
        }),
      ),
    );
  const feed = (dims: readonly number[], type = "float32"): Tensor =>
    new Tensor(
      type,
      type === "float32" ? new Float32Array(dims[0] * dims[1]) : new Int32Array(dims[0] * dims[1]),
      dims,
    );
  test.each([
    ["a missing input", {}, /input "x" \(float32\[n,3\]\) is missing/],
    [
      "an input under another name",
      { x: feed([2, 3]), q: feed([2, 3]) },
      /input "z" \(float32\[n,3\]\) is missing; "q" is no input of the model; its inputs are x, z/,
    ],
    [
      "another type",
      { x: feed([2, 3], "int32"), z: feed([2, 3]) },
      /input "x" must be float32\[n,3\], got int32\[2,3\]: the element type differs/,
    ],
    ["another size", { x: feed([2, 4]), z: feed([2, 3]) }, /dimension 1 differs/],
    ["one symbol, two sizes", { x: feed([2, 3]), z: feed([4, 3]) }, /shapes \[2,3\] and \[4,3\] do not broadcast/],
    ["no tensor", { x: [1, 2, 3] as never, z: feed([2, 3]) }, /input "x" must be a Tensor/],
  ])("%s", async (_, feeds, message) => {
    await expect((await create()).run(feeds as Record<string, Tensor>)).rejects.toThrow(message);
  });

  test("outputs that do not exist, targets that do not fit, a released session", async () => {
    const session = await create();
    const feeds = { x: feed([2, 3]), z: feed([2, 3]) };
    await expect(session.run(feeds, ["w"])).rejects.toThrow(/"w" is no output of the model; its outputs are y/);
    await expect(session.run(feeds, { y: feed([1, 3]) })).rejects.toThrow(
      /fetches\["y"\] must be float32\[2,3\], got float32\[1,3\]/,
    );
    await session.release();
    await expect(session.run(feeds)).rejects.toMatchObject({ code: "released" });
  });
});
