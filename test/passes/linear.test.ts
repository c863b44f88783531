// Biases taken into products, residual additions into normalisations, and where they stay outside.
import { expect, test } from "vitest";
import { initializer, node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode } from "../../src/onnx/model.js";
import { expectLeftAlone, expectSameResults, modelOf, onlyNode, operatorsOf, optimized, weights } from "./support.js";

const dims = { batch: 2, sequence: 3 };
const x = ["batch", "sequence", 8] as const;
const multiply = node("MatMul", ["x", "weight"], ["product"]);
const linear = (add: ModelNode, more: Partial<Parameters<typeof modelOf>[0]> = {}): Model =>
  modelOf({
    inputs: { x },
    outputs: ["y"],
    nodes: [multiply, add],
    ...more,
    constants: [weights("weight", 8, 5), weights("bias", 5), ...(more.constants ?? [])],
  });

test("a bias in either order", async () => {
  for (const operands of [
    ["product", "bias"],
    ["bias", "product"],
  ]) {
    const model = linear(node("Add", operands, ["y"]));
    expect(operatorsOf(model)).toEqual(["MatMulBias"]);
    await expectSameResults(model, dims);
  }
});

test("a bias for MatMulNBits", async () => {
  const blocks = Uint8Array.from({ length: 5 * 2 * 8 }, (_, at) => (at * 37) % 256);
  const model = modelOf({
    inputs: { x: ["batch", "sequence", 32] },
    outputs: ["y"],
    constants: [initializer("blocks", "uint8", blocks, [5, 2, 8]), weights("scales", 10), weights("bias", 5)],
    nodes: [
      node(
        "MatMulNBits",
        ["x", "blocks", "scales"],
        ["product"],
        { K: 32, N: 5, bits: 4, block_size: 16 },
        { domain: "com.microsoft" },
      ),
      node("Add", ["product", "bias"], ["y"]),
    ],
  });
  expect(operatorsOf(model)).toEqual(["MatMulNBits"]);
  expect(onlyNode(optimized(model), "MatMulNBits").inputs[5]?.name).toBe("bias");
  await expectSameResults(model, dims);
});

test("no bias: other shapes, other types, weights in batches, a product that others need", () => {
  expectLeftAlone(linear(node("Add", ["product", "matrix"], ["y"]), { constants: [weights("matrix", 1, 5)] }));
  expectLeftAlone(linear(node("Add", ["product", "single"], ["y"]), { constants: [weights("single", 1)] }));
  expectLeftAlone(linear(node("Sub", ["product", "bias"], ["y"])));
  expectLeftAlone(linear(node("Add", ["product", "bias"], ["y"]), { outputs: ["y", "product"] }));
  const batched = modelOf({
    inputs: { x: [2, 3, 8], weight: [2, 8, 5] },
    outputs: ["y"],
    nodes: [multiply, node("Add", ["product", "bias"], ["y"])],
    constants: [weights("bias", 5)],
  });
  expectLeftAlone(batched);
  const narrow = modelOf({
    inputs: {
      x: value("x", "float16", x),
      weight: value("weight", "float16", [8, 5]),
      bias: value("bias", "float16", [5]),
    },
    outputs: ["y"],
    nodes: [multiply, node("Add", ["product", "bias"], ["y"])],
  });
  expectLeftAlone(narrow);
});

const skip = (norm: ModelNode, more: Partial<Parameters<typeof modelOf>[0]> = {}): Model =>
  modelOf({
    inputs: { x, other: x },
    outputs: ["y", "z"],
    opset: 23,
    nodes: [node("Add", ["x", "other"], ["sum"]), norm, node("Neg", ["sum"], ["z"])],
    ...more,
    constants: [weights("weight", 8), weights("bias", 8), weights("table", 3, 8)],
  });
const rms = node("RMSNormalization", ["sum", "weight"], ["y"], { axis: -1 });

test("a residual before a normalisation: one node gives the sum and the normalised", async () => {
  for (const [norm, name] of [
    [rms, "SkipSimplifiedLayerNormalization"],
    [node("LayerNormalization", ["sum", "weight", "bias"], ["y"]), "SkipLayerNormalization"],
    [node("LayerNormalization", ["sum", "weight"], ["y"]), "SkipLayerNormalization"],
  ] as const) {
    const model = skip(norm);
    expect(operatorsOf(model)).toEqual([name, "Neg"]);
    await expectSameResults(model, dims);
  }
  const shown = skip(rms, { outputs: ["y", "z", "sum"] });
  expect(operatorsOf(shown)).toEqual(["SkipSimplifiedLayerNormalization", "Neg"]);
  await expectSameResults(shown, dims);
});

test("a sum that is read before it is normalised", async () => {
  const model = modelOf({
    inputs: { x, other: x },
    outputs: ["y", "z"],
    opset: 23,
    nodes: [node("Add", ["x", "other"], ["sum"]), node("Neg", ["sum"], ["z"]), rms],
    constants: [weights("weight", 8)],
  });
  expect(operatorsOf(model)).toEqual(["SkipSimplifiedLayerNormalization", "Neg"]);
  await expectSameResults(model, dims);
});

test("no residual: a broadcast, another axis, a fed weight, statistics that others need, four dimensions", () => {
  expectLeftAlone(skip(rms, { inputs: { x, other: [1, "sequence", 8] } }));
  const rows = { x: ["batch", 3, 8], other: ["batch", 3, 8] } as const;
  expectLeftAlone(skip(node("RMSNormalization", ["sum", "table"], ["y"], { axis: 1 }), { inputs: rows }));
  const nodes = [
    node("Add", ["x", "other"], ["sum"]),
    node("RMSNormalization", ["sum", "given"], ["y"]),
    node("Neg", ["sum"], ["z"]),
  ];
  expectLeftAlone(skip(rms, { inputs: { x, other: x, given: [8] }, nodes }));
  expectLeftAlone(
    skip(node("LayerNormalization", ["sum", "weight", "bias"], ["y", "mean"]), { outputs: ["y", "z", "mean"] }),
  );
  const wide = ["batch", 2, "sequence", 8] as const;
  expectLeftAlone(skip(rms, { inputs: { x: wide, other: wide } }));
});
