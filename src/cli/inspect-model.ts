/**
 * A model opened to be looked at, not run: weights in other files are described, not read, so that a model larger than memory can
 * be inspected. What can decide a shape is read: small tensors, and whole numbers of 32 and 64 bits.
 */
import { InsituError } from "../base/error.js";
import { loadExternalData } from "../onnx/external.js";
import { openModel } from "../onnx/load.js";
import { mapTensors } from "../onnx/map-tensors.js";
import type { Model, ModelGraph, ModelNode, ModelTensor } from "../onnx/model.js";
import { operators } from "../ops/index.js";
import { nodePlatform } from "../platform/node.js";
import { arrayConstructorOf, byteLengthOf, storageLengthOf } from "../tensor/element-type.js";
import { elementCount, largestByteLength } from "../tensor/view.js";

/** Elements up to which inference looks into a constant. */
const mostRead = 2 ** 16;

const staysOutside = ({ external, data, type, dims }: ModelTensor): boolean =>
  external !== undefined &&
  data === undefined &&
  !["string", "int32", "int64"].includes(type) &&
  elementCount(dims) > mostRead;

/** The model at a path, with stand-ins for its large external weights. They share one range of zeros that nobody touches. */
export async function openForInspection(path: string): Promise<Model> {
  const model = await openModel(path, nodePlatform);
  let most = 0;
  mapTensors(model, (tensor) => {
    if (staysOutside(tensor)) most = Math.max(most, byteLengthOf(tensor.type, elementCount(tensor.dims)));
    return tensor;
  });
  if (most > largestByteLength)
    throw new InsituError(
      "out-of-memory",
      `a weight of ${most} bytes is larger than the ${largestByteLength} that one tensor may take`,
    );
  const zeros = new ArrayBuffer(Math.ceil(most / 8) * 8);
  const described = mapTensors(model, (tensor) => {
    if (!staysOutside(tensor) || tensor.type === "string") return tensor;
    const length = storageLengthOf(tensor.type, elementCount(tensor.dims));
    return { ...tensor, data: new (arrayConstructorOf(tensor.type))(zeros, 0, length) };
  });
  return loadExternalData(described, nodePlatform);
}

/** The operators that a model calls and insitu does not have, each with how many nodes call it; `Foo (12 nodes)`. */
export function missingOperators(model: Model): string[] {
  const counts = new Map<string, number>();
  const local = new Set(model.functions.map(({ domain, name }) => `${domain}::${name}`));
  const visit = (nodes: readonly ModelNode[], opsets: ReadonlyMap<string, number>): void => {
    for (const node of nodes) {
      const domain = node.domain === "ai.onnx" ? "" : node.domain;
      const known =
        local.has(`${node.domain}::${node.opType}`) ||
        operators.find(domain, node.opType, opsets.get(domain) ?? 1) !== undefined;
      const name = domain === "" ? node.opType : `${domain}::${node.opType}`;
      if (!known) counts.set(name, (counts.get(name) ?? 0) + 1);
      for (const graph of bodiesOf(node)) visit(graph.nodes, opsets);
    }
  };
  visit(model.graph.nodes, model.opsets);
  for (const part of model.functions) visit(part.nodes, part.opsets);
  return [...counts]
    .sort((a, b) => b[1] - a[1])
    .map(([name, count]) => `${name} (${count} node${count === 1 ? "" : "s"})`);
}

const bodiesOf = (node: ModelNode): ModelGraph[] =>
  [...node.attributes.values()].flatMap((attribute) =>
    attribute.kind === "graph" ? [attribute.value] : attribute.kind === "graphs" ? [...attribute.value] : [],
  );
