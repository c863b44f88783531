// Weights that are inputs of the graph too: a feed takes their place, whatever a pass has made of the products that read them. Fed and left out in turn,
// on every backend, against the graph as it is on the reference implementation.
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import type { ModelNode } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { noWebgpu } from "../support/backends.js";
import { Chance } from "../state/chance.js";
import { largestDifference } from "../support/compare.js";

const size = 16;

interface Form {
  readonly weights: Readonly<Record<string, readonly number[]>>;
  readonly nodes: readonly ModelNode[];
}

const bytes = (name: string): boolean => /^B|^quantized/.test(name);

const forms: Readonly<Record<string, Form>> = {
  "a gate": {
    weights: { gate: [size, size], up: [size, size], norm: [size] },
    nodes: [
      node("RMSNormalization", ["x", "norm"], ["rows"], { axis: -1 }),
      node("MatMul", ["rows", "gate"], ["a"]),
      node("MatMul", ["rows", "up"], ["b"]),
      node("Sigmoid", ["a"], ["s"]),
      node("Mul", ["a", "s"], ["swish"]),
      node("Mul", ["swish", "b"], ["y"]),
    ],
  },
  "products of one value": {
    weights: { B1: [size, 1, 8], scales1: [size], B2: [size, 1, 8], scales2: [size] },
    nodes: [
      ...[1, 2].map((at) =>
        node(
          "MatMulNBits",
          ["x", `B${at}`, `scales${at}`],
          [`p${at}`],
          { K: size, N: size, bits: 4, block_size: 16 },
          { domain: "com.microsoft" },
        ),
      ),
      node("Add", ["p1", "p2"], ["y"]),
    ],
  },
  "weights that are kept quantized": {
    weights: { quantized: [size, size], scale: [size] },
    nodes: [
      node("DequantizeLinear", ["quantized", "scale"], ["floats"], { axis: 1 }),
      node("MatMul", ["x", "floats"], ["y"]),
    ],
  },
};

function tensorOf(chance: Chance, name: string, dims: readonly number[]): Tensor {
  const count = dims.reduce((product, dim) => product * dim, 1);
  const numbers = Array.from({ length: count }, () => (bytes(name) ? chance.below(256) : 2 * chance.random() - 1));
  return bytes(name) ? new Tensor("uint8", numbers, dims) : new Tensor("float32", numbers, dims);
}

const backends = ["wasm", ...(noWebgpu === undefined ? (["webgpu"] as const) : [])] as const;
const cases = Object.entries(forms).flatMap(([name, form]) =>
  Object.keys(form.weights).map((fed) => ({ name, fed, form })),
);

test.each(cases)("$name, $fed is fed", async ({ form: { weights, nodes }, fed }) => {
  const chance = new Chance(7);
  const own = Object.entries(weights).map(([name, dims]) => [name, tensorOf(chance, name, dims)] as const);
  const [, replaced] = own.find(([name]) => name === fed)!;
  const model = writeModel(
    buildModel({
      opset: { "": 23, "com.microsoft": 1 },
      inputs: [value("x", "float32", [1, 1, size]), value(fed, replaced.type, [...replaced.dims])],
      initializers: own.map(([name, tensor]) => initializer(name, tensor)),
      outputs: [value("y")],
      nodes,
    }),
  );
  const plain = { backend: "reference", inPlace: "never", graphOptimizationLevel: "disabled" } as const;
  const sessions = await Promise.all(
    [plain, ...backends.map((backend) => ({ backend, threads: 1 }))].map((options) =>
      InferenceSession.create(model, options),
    ),
  );
  const x = tensorOf(chance, "x", [1, 1, size]);
  for (const isFed of [false, true, true, false]) {
    const feeds = isFed ? { x, [fed]: tensorOf(chance, fed, weights[fed]) } : { x };
    const [expected, ...others] = await Promise.all(
      sessions.map(async (session) => (await session.run(feeds))["y"].data as Float32Array),
    );
    others.forEach((found, at) =>
      expect(largestDifference(found, expected), `${backends[at]}, ${isFed ? "fed" : "left out"}`).toBeLessThan(1e-3),
    );
  }
  await Promise.all(sessions.map((session) => session.release()));
});
