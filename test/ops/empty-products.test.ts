// Products with no rows cost nothing: what has no output does not look at its weights. The measure is the same model with one row.
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import type { ModelNode, ModelTensor } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";

const size = 768;
const bytes = (name: string, ...dims: number[]): ModelTensor =>
  initializer(name, "uint8", new Uint8Array(dims.reduce((all, dim) => all * dim, 1)).fill(3), dims);
const floats = (name: string, ...dims: number[]): ModelTensor =>
  initializer(name, "float32", new Float32Array(dims.reduce((all, dim) => all * dim, 1)).fill(0.5), dims);
const microsoft = { domain: "com.microsoft" };
const blocks = { K: size, N: size, bits: 4, block_size: 32 };

const [matrix, scale, zero] = [bytes("w", size, size), floats("s"), bytes("z")];
const kernels = bytes("w", 256, 256, 3, 3);
const quantized = ["x", "s", "z", "w", "s", "z", "s", "z"];

interface Case {
  readonly type: "float32" | "uint8";
  readonly nodes: readonly ModelNode[];
  readonly weights: readonly ModelTensor[];
  readonly row?: readonly number[];
}

const cases: Readonly<Record<string, Case>> = {
  MatMulNBits: {
    type: "float32",
    nodes: [node("MatMulNBits", ["x", "w", "s"], ["y"], blocks, microsoft)],
    weights: [bytes("w", size, size / 32, 16), floats("s", size, size / 32)],
  },
  MatMulInteger: { type: "uint8", nodes: [node("MatMulInteger", ["x", "w"], ["y"])], weights: [matrix] },
  QLinearMatMul: {
    type: "uint8",
    nodes: [node("QLinearMatMul", quantized, ["y"])],
    weights: [matrix, scale, zero],
  },
  MatMulIntegerToFloat: {
    type: "uint8",
    nodes: [node("MatMulIntegerToFloat", ["x", "w", "s", "s"], ["y"], {}, microsoft)],
    weights: [matrix, scale],
  },
  DynamicQuantizeMatMul: {
    type: "float32",
    nodes: [node("DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], {}, microsoft)],
    weights: [matrix, scale],
  },
  "DequantizeLinear and MatMul": {
    type: "float32",
    nodes: [node("DequantizeLinear", ["w", "s"], ["d"]), node("MatMul", ["x", "d"], ["y"])],
    weights: [matrix, scale],
  },
  ConvInteger: {
    type: "uint8",
    nodes: [node("ConvInteger", ["x", "w"], ["y"])],
    weights: [kernels],
    row: [256, 3, 3],
  },
  QLinearConv: {
    type: "uint8",
    nodes: [node("QLinearConv", quantized, ["y"])],
    weights: [kernels, scale, zero],
    row: [256, 3, 3],
  },
};

for (const [name, { type, nodes, weights, row = [size] }] of Object.entries(cases)) {
  test(`${name} of nothing takes no time`, async () => {
    const model = buildModel({
      nodes: [...nodes],
      inputs: [value("x", type, ["batch", ...row])],
      outputs: [value("y")],
      initializers: [...weights],
      opset: { "ai.onnx": 21, "com.microsoft": 1 },
    });
    const session = await InferenceSession.create(writeModel(model), { backend: "reference" });
    /** The least of several runs, in milliseconds. */
    const take = async (batch: number, runs: number): Promise<number> => {
      const count = batch * row.reduce((all, dim) => all * dim, 1);
      const x = new Tensor(type, type === "uint8" ? new Uint8Array(count) : new Float32Array(count), [batch, ...row]);
      const times: number[] = [];
      for (let run = 0; run < runs; run++) {
        const began = performance.now();
        const { y } = await session.run({ x });
        times.push(performance.now() - began);
        expect(y.dims[0]).toBe(batch);
      }
      return Math.min(...times);
    };
    // Some hundred times less on any machine; the least of many, so that no pause counts.
    expect(await take(0, 20)).toBeLessThan((await take(1, 2)) / 5);
    await session.release();
  });
}
