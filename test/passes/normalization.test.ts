// RMS and layer normalisation as exporters write them out, and what must not be taken for them.
import { expect, test } from "vitest";
import { node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelTensor } from "../../src/onnx/model.js";
import {
  constant,
  expectLeftAlone,
  expectSameResults,
  list,
  modelOf,
  onlyNode,
  operatorsOf,
  optimized,
  weights,
} from "./support.js";

const dims = { batch: 2, sequence: 3 };
const x = ["batch", "sequence", 8] as const;
const common: readonly ModelTensor[] = [
  constant("two", 2),
  constant("one", 1),
  constant("half", -0.5),
  constant("epsilon", 1e-3),
  list("last", -1),
  weights("weight", 8),
  weights("bias", 8),
];

const squares: Readonly<Record<string, readonly ModelNode[]>> = {
  Pow: [node("Pow", ["c", "two"], ["squares"])],
  Mul: [node("Mul", ["c", "c"], ["squares"])],
};
const divisions: Readonly<Record<string, readonly ModelNode[]>> = {
  Reciprocal: [
    node("Sqrt", ["shifted"], ["root"]),
    node("Reciprocal", ["root"], ["inverse"]),
    node("Mul", ["c", "inverse"], ["normalized"]),
  ],
  "Div of 1": [
    node("Sqrt", ["shifted"], ["root"]),
    node("Div", ["one", "root"], ["inverse"]),
    node("Mul", ["inverse", "c"], ["normalized"]),
  ],
  Div: [node("Sqrt", ["shifted"], ["root"]), node("Div", ["c", "root"], ["normalized"])],
  "Pow of -0.5": [node("Pow", ["shifted", "half"], ["inverse"]), node("Mul", ["c", "inverse"], ["normalized"])],
};

/** What is normalised stands as `c`; the rest of a normalisation behind it. */
const rest = (square: string, division: string): ModelNode[] => [
  ...squares[square],
  node("ReduceMean", ["squares", "last"], ["mean"]),
  node("Add", ["mean", "epsilon"], ["shifted"]),
  ...divisions[division],
];

const rms = (more: Partial<Parameters<typeof modelOf>[0]> & { tail?: readonly ModelNode[] } = {}): Model =>
  modelOf({
    inputs: { c: x },
    outputs: ["y"],
    constants: common,
    ...more,
    nodes: more.nodes ?? [
      ...rest("Pow", "Reciprocal"),
      ...(more.tail ?? [node("Mul", ["weight", "normalized"], ["y"])]),
    ],
  });

for (const square of Object.keys(squares)) {
  for (const division of Object.keys(divisions)) {
    test(`RMS: squares by ${square}, division by ${division}`, async () => {
      for (const operands of [
        ["weight", "normalized"],
        ["normalized", "weight"],
      ]) {
        const model = rms({ nodes: [...rest(square, division), node("Mul", operands, ["y"])] });
        const made = onlyNode(optimized(model), "RMSNormalization");
        expect(made.inputs.map((input) => input?.name)).toEqual(["c", "weight"]);
        expect(made.attrs).toMatchObject({ axis: 2, epsilon: Math.fround(1e-3) });
        expect(operatorsOf(model)).toEqual(["RMSNormalization"]);
        await expectSameResults(model, dims);
      }
    });
    test(`layer: squares by ${square}, division by ${division}`, async () => {
      const model = modelOf({
        inputs: { x },
        outputs: ["y"],
        constants: common,
        nodes: [
          node("ReduceMean", ["x", "last"], ["center"]),
          node("Sub", ["x", "center"], ["c"]),
          ...rest(square, division),
          node("Mul", ["normalized", "weight"], ["scaled"]),
          node("Add", ["scaled", "bias"], ["y"]),
        ],
      });
      expect(operatorsOf(model)).toEqual(["LayerNormalization"]);
      expect(onlyNode(optimized(model), "LayerNormalization").inputs.map((input) => input?.name)).toEqual([
        "x",
        "weight",
        "bias",
      ]);
      await expectSameResults(model, dims);
    });
  }
}

test("RMS: axes as an attribute, over more than one axis", async () => {
  const nodes = [
    ...squares["Pow"],
    node("ReduceMean", ["squares"], ["mean"], { axes: [2, -2] }),
    node("Add", ["mean", "epsilon"], ["shifted"]),
    ...divisions["Div"],
    node("Mul", ["normalized", "table"], ["y"]),
  ];
  const model = rms({
    inputs: { c: ["batch", 3, 8] },
    nodes,
    opset: 17,
    constants: [...common, weights("table", 3, 8)],
  });
  expect(onlyNode(optimized(model), "RMSNormalization").attrs["axis"]).toBe(1);
  await expectSameResults(model, dims);
});

test("RMS: without a weight, or with one that spans something else", async () => {
  const bare = rms({ tail: [node("Neg", ["normalized"], ["y"])] });
  expect(operatorsOf(bare)).toEqual(["RMSNormalization", "Neg"]);
  await expectSameResults(bare, dims);
  const gated = rms({ inputs: { c: x, gate: x }, tail: [node("Mul", ["normalized", "gate"], ["y"])] });
  expect(operatorsOf(gated)).toEqual(["RMSNormalization", "Mul"]);
  await expectSameResults(gated, dims);
});

test("RMS: the normalised values are an output as well: the weight stays outside", async () => {
  const model = rms({ outputs: ["y", "normalized"] });
  expect(operatorsOf(model)).toEqual(["RMSNormalization", "Mul"]);
  await expectSameResults(model, dims);
});

test("RMS in float16 with Casts to float32 around: the operator's own", async () => {
  const narrow = (tail: readonly ModelNode[]): Model =>
    modelOf({
      inputs: { x: value("x", "float16", x) },
      outputs: ["y"],
      constants: common,
      nodes: [node("Cast", ["x"], ["c"], { to: 1 }), ...rest("Pow", "Reciprocal"), ...tail],
    });
  const afterwards = narrow([
    node("Cast", ["weight"], ["narrow_weight"], { to: 10 }),
    node("Cast", ["normalized"], ["narrow"], { to: 10 }),
    node("Mul", ["narrow_weight", "narrow"], ["y"]),
  ]);
  expect(operatorsOf(afterwards)).toEqual(["RMSNormalization"]);
  await expectSameResults(afterwards, dims, { tolerance: 2e-3 });
  const before = narrow([node("Mul", ["weight", "normalized"], ["wide"]), node("Cast", ["wide"], ["y"], { to: 10 })]);
  expect(operatorsOf(before)).toEqual(["RMSNormalization", "Cast"]);
  await expectSameResults(before, dims, { tolerance: 2e-3 });
});

test("layer: without a bias, without a weight", async () => {
  const start = [
    node("ReduceMean", ["x", "last"], ["center"]),
    node("Sub", ["x", "center"], ["c"]),
    ...rest("Pow", "Div"),
  ];
  for (const tail of [[node("Mul", ["normalized", "weight"], ["y"])], [node("Neg", ["normalized"], ["y"])]]) {
    const model = modelOf({ inputs: { x }, outputs: ["y"], constants: common, nodes: [...start, ...tail] });
    expect(operatorsOf(model)[0]).toBe("LayerNormalization");
    await expectSameResults(model, dims);
  }
});

test("left alone: inner results that others need", () => {
  for (const inner of ["squares", "mean", "shifted", "root", "inverse"])
    expectLeftAlone(rms({ outputs: ["y", inner] }));
  expectLeftAlone(
    rms({
      outputs: ["y", "z"],
      nodes: [
        ...rest("Pow", "Reciprocal"),
        node("Mul", ["weight", "normalized"], ["y"]),
        node("Add", ["mean", "one"], ["z"]),
      ],
    }),
  );
});

test("left alone: other axes, exponents, shifts and signs", () => {
  const changed = (...changes: readonly ModelTensor[]): Model =>
    rms({ constants: [...common.filter(({ name }) => !changes.some((change) => change.name === name)), ...changes] });
  expectLeftAlone(changed(list("last", 1)));
  expectLeftAlone(changed(list("last", 0, 2)));
  expectLeftAlone(changed(constant("two", 3)));
  expectLeftAlone(changed(constant("two", 2.01)));
  expectLeftAlone(changed(constant("epsilon", -1e-3)));
  expectLeftAlone(changed(weights("epsilon", 8)));
  expectLeftAlone(
    rms({
      nodes: [
        ...squares["Pow"],
        node("ReduceMean", ["squares", "last"], ["mean"]),
        node("Sub", ["mean", "epsilon"], ["shifted"]),
        ...divisions["Div"],
        node("Mul", ["normalized", "weight"], ["y"]),
      ],
    }),
  );
});

test("left alone: the square of something else, and float16 throughout", () => {
  const nodes = [
    node("Mul", ["c", "other"], ["squares"]),
    ...rest("Pow", "Div").slice(1),
    node("Neg", ["normalized"], ["y"]),
  ];
  expectLeftAlone(rms({ inputs: { c: x, other: x }, nodes }));
  const narrow = ["two", "epsilon", "weight"].map((name) => node("Cast", [name], [`${name}_16`], { to: 10 }));
  const renamed = rest("Pow", "Div").map((made) => ({
    ...made,
    inputs: made.inputs.map((input) => (["two", "epsilon"].includes(input) ? `${input}_16` : input)),
  }));
  expectLeftAlone(
    modelOf({
      inputs: { c: value("c", "float16", x) },
      outputs: ["y"],
      constants: common,
      nodes: [...narrow, ...renamed, node("Mul", ["normalized", "weight_16"], ["y"])],
    }),
  );
});

test("left alone: a layer normalisation whose means are over different axes", () => {
  const model = modelOf({
    inputs: { x: [2, 8, 8] },
    outputs: ["y"],
    constants: [...common, list("middle", 1)],
    nodes: [
      node("ReduceMean", ["x", "middle"], ["center"]),
      node("Sub", ["x", "center"], ["c"]),
      ...rest("Pow", "Div"),
      node("Mul", ["normalized", "weight"], ["y"]),
    ],
  });
  // What is left is the RMS of a deviation from another mean.
  expect(operatorsOf(model)).toEqual(["ReduceMean", "Sub", "RMSNormalization"]);
});
