// Weights that stay quantized: dequantization taken into products, and where it stays outside.
import { expect, test } from "vitest";
import { initializer, node } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelTensor } from "../../src/onnx/model.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { constant, expectSameResults, modelOf, onlyNode, operatorsOf, optimized, weights } from "./support.js";

const dims = { batch: 2, sequence: 3 };
const x = ["batch", "sequence", 256] as const; // and 200 columns: smaller weights are folded

const levels = (name: string, type: ElementType, low: number, high: number, ...shape: number[]): ModelTensor => {
  const count = shape.reduce((product, dim) => product * dim, 1);
  const values = Array.from({ length: count }, (_, at) => low + ((at * 7919) % (high - low + 1)));
  if (type !== "uint4") return initializer(name, type, values, shape);
  const packed = Uint8Array.from(
    { length: Math.ceil(count / 2) },
    (_, at) => values[2 * at] | (values[2 * at + 1] << 4),
  );
  return initializer(name, type, packed, shape);
};

const quantized = (
  operands: readonly string[],
  constants: readonly ModelTensor[],
  attributes: Parameters<typeof node>[3] = {},
  more: readonly ModelNode[] = [],
): Model =>
  modelOf({
    inputs: { x },
    outputs: ["y"],
    opset: 21,
    constants,
    nodes: [
      node("DequantizeLinear", operands, ["weight"], attributes),
      node("MatMul", ["x", "weight"], [more.length === 0 ? "y" : "product"]),
      ...more,
    ],
  });

test("one scale, scales by column, and blocks, of 8 and 4 bits", async () => {
  const one = quantized(["w", "s"], [levels("w", "int8", -128, 127, 256, 200), constant("s", 0.01)]);
  const columns = quantized(
    ["w", "s", "z"],
    [levels("w", "uint8", 0, 255, 256, 200), weights("s", 200), levels("z", "uint8", 100, 150, 200)],
  );
  const blocks = quantized(
    ["w", "s", "z"],
    [levels("w", "uint4", 0, 15, 256, 200), weights("s", 16, 200), levels("z", "uint4", 0, 15, 16, 200)],
    { axis: 0, block_size: 16 },
  );
  for (const model of [one, columns, blocks]) {
    expect(operatorsOf(model)).toEqual(["DequantizeMatMul"]);
    await expectSameResults(model, dims);
  }
});

test("a bias comes along, and other readers keep the floats", async () => {
  const constants = [levels("w", "int8", -128, 127, 256, 200), weights("s", 200), weights("bias", 200)];
  const biased = quantized(["w", "s"], constants, {}, [node("Add", ["product", "bias"], ["y"])]);
  expect(operatorsOf(biased)).toEqual(["DequantizeMatMul"]);
  expect(onlyNode(optimized(biased), "DequantizeMatMul").inputs[4]?.name).toBe("bias");
  await expectSameResults(biased, dims);
  const shared = quantized(["w", "s"], constants, {}, [
    node("ReduceSum", ["weight"], ["total"], { keepdims: 0 }),
    node("Mul", ["product", "total"], ["y"]),
  ]);
  expect(operatorsOf(shared)).toContain("DequantizeMatMul");
  await expectSameResults(shared, dims, { tolerance: 1e-4 });
});

test("left alone: weights that are fed, other widths", () => {
  const fed = modelOf({
    inputs: { x, s: [] },
    outputs: ["y"],
    opset: 21,
    constants: [levels("w", "int8", -128, 127, 256, 200)],
    nodes: [node("DequantizeLinear", ["w", "s"], ["weight"]), node("MatMul", ["x", "weight"], ["y"])],
  });
  expect(operatorsOf(fed)).toEqual(["DequantizeLinear", "MatMul"]);
  const wide = quantized(["w", "s"], [levels("w", "int16", -3000, 3000, 256, 200), weights("s", 200)]);
  expect(operatorsOf(wide)).not.toContain("DequantizeMatMul");
});
