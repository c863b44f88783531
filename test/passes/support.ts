// Small models around a rewrite, run as the file has them and after all passes.
import { expect } from "vitest";
import { seededRandom } from "../../src/graph/call.js";
import type { Graph, Node } from "../../src/graph/graph.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, value } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelTensor, ModelValue } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { preparedGraphOf } from "../../src/session/load.js";
import { readNumbers, writeNumbers } from "../../src/tensor/access.js";
import { traitsOf } from "../../src/tensor/element-type.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { largestDifference as numbersDifference } from "../support/compare.js";

/** A float32 constant. */
export const constant = (name: string, values: number | readonly number[], dims?: readonly number[]): ModelTensor =>
  typeof values === "number"
    ? initializer(name, "float32", [values], dims ?? [])
    : initializer(name, "float32", [...values], dims ?? [values.length]);

/** A constant list of integers. */
export const list = (name: string, ...values: readonly number[]): ModelTensor =>
  initializer(name, "int64", values.map(BigInt), [values.length]);

/** A float32 constant of random numbers. */
export function weights(name: string, ...dims: readonly number[]): ModelTensor {
  const random = seededRandom(name.length + dims.length);
  const count = dims.reduce((product, dim) => product * dim, 1);
  return constant(
    name,
    Array.from({ length: count }, () => random() * 2 - 1),
    dims,
  );
}

/** A model of nodes, with float32 inputs and outputs by name. */
export function modelOf(parts: {
  readonly inputs: Readonly<Record<string, ModelValue | readonly (number | string)[]>>;
  readonly outputs: readonly string[];
  readonly nodes: readonly ModelNode[];
  readonly constants?: readonly ModelTensor[];
  readonly opset?: number;
}): Model {
  return buildModel({
    opset: { "ai.onnx": parts.opset ?? 18, "com.microsoft": 1 },
    inputs: Object.entries(parts.inputs).map(([name, shape]) =>
      "name" in shape ? shape : value(name, "float32", shape),
    ),
    outputs: parts.outputs.map((name) => value(name)),
    nodes: parts.nodes,
    initializers: parts.constants ?? [],
  });
}

/** The graph after all passes. */
export const optimized = (model: Model): Graph => preparedGraphOf(model).graph;

/** The operators of a model after all passes, in order. */
export const operatorsOf = (model: Model): string[] => optimized(model).nodes.map((node) => node.op.name);

/** The only node of an operator. */
export function onlyNode(graph: Graph, name: string): Node {
  const found = graph.nodes.filter((node) => node.op.name === name);
  expect(found.length, `one ${name} among ${graph.nodes.map((node) => node.op.name).join(", ")}`).toBe(1);
  return found[0];
}

/** Random feeds: numbers around 0 for floats, 0 and 1 for booleans, small positions for integers. */
export function feedsFor(
  session: InferenceSession,
  dims: Readonly<Record<string, number>>,
  seed = 1,
): Record<string, Tensor> {
  const random = seededRandom(seed);
  return Object.fromEntries(
    session.inputMetadata.map(({ name, type, shape }) => {
      const view = View.allocate(
        type,
        shape.map((dim) => (typeof dim === "number" ? dim : dims[dim])),
      );
      const { kind } = traitsOf(type);
      const draw = (): number =>
        kind === "bool" ? Number(random() < 0.6) : kind === "integer" ? Math.floor(random() * 8) : random() * 4 - 2;
      if (type === "int64")
        (view.data as BigInt64Array).set(Array.from({ length: view.size }, () => BigInt(Math.floor(random() * 8))));
      else writeNumbers(view, Array.from({ length: view.size }, draw));
      return [name, Tensor.fromView(view)];
    }),
  );
}

/** The largest difference between two runs' results, relative to max(1, |expected|); only NaN is close to NaN. */
export function largestDifference(actual: Record<string, Tensor>, expected: Record<string, Tensor>): number {
  let worst = 0;
  for (const [name, tensor] of Object.entries(expected)) {
    const [a, b] = [actual[name].toView(), tensor.toView()];
    expect(String(a), name).toBe(String(b));
    worst = Math.max(worst, numbersDifference(readNumbers(a), readNumbers(b)));
  }
  return worst;
}

/** Runs a model as the file has it and after all passes: the results are the same but for rounding. */
export async function expectSameResults(
  model: Model,
  dims: Readonly<Record<string, number>>,
  { tolerance = 1e-5, feeds = {} }: { tolerance?: number; feeds?: Readonly<Record<string, Tensor>> } = {},
): Promise<void> {
  const bytes = writeModel(model);
  const plain = await InferenceSession.create(bytes, {
    backend: "reference",
    inPlace: "never",
    graphOptimizationLevel: "disabled",
  });
  const fused = await InferenceSession.create(bytes, { backend: "reference" });
  const given = { ...feedsFor(plain, dims), ...feeds };
  const difference = largestDifference(await fused.run(given), await plain.run(given));
  expect(difference).toBeLessThanOrEqual(tolerance);
}

/** The operators before and after all passes are the same ones: nothing was taken. */
export function expectLeftAlone(model: Model): void {
  const before = preparedGraphOf(model, { level: "disabled" }).graph.nodes.map((node) => node.op.name);
  expect(operatorsOf(model)).toEqual(before);
}
