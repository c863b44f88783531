/** Weights that lie as one device's kernels read them, put into the order that their operators mean: once, when a model is loaded. */
import { InsituError } from "../base/error.js";
import { readAttributes } from "../graph/attribute.js";
import type { PackedInput } from "../graph/op.js";
import { mapTensors } from "../onnx/map-tensors.js";
import type { Model, ModelAttribute, ModelGraph, ModelNode, ModelTensor } from "../onnx/model.js";
import { deferredTensor } from "../onnx/weight-source.js";
import { DeferredElements } from "../tensor/deferred.js";
import type { ByteStorage } from "../tensor/element-type.js";
import { unpack, unpacked } from "#insitu/packings/packing.js";
import { operatorOf } from "./row-weights.js";

/** The nodes of a model with what they are after it, and the weights that lie in another order, by name. */
function packedIn({ graph, opsets }: Model): {
  readonly nodes: readonly ModelNode[];
  readonly weights: ReadonlyMap<string, PackedInput>;
} {
  const tensors = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
  const weights = new Map<string, PackedInput>();
  const readers = new Set<ModelNode>();
  const nodes = graph.nodes.map((node) => {
    const op = operatorOf(node, opsets);
    if (op?.packed === undefined) return node;
    const names = Object.keys(op.inputs);
    const plain = [...node.attributes].flatMap(([name, each]) =>
      each.kind === "int" || each.kind === "float" || each.kind === "string" ? [[name, each] as const] : [],
    );
    const attrs = readAttributes(op.attrs, new Map(plain), node.opType);
    const found = op.packed(attrs, (name) => tensors.get(node.inputs[names.indexOf(name)]));
    if (found === undefined) return node;
    for (const [name, how] of Object.entries(found.inputs)) {
      const weight = node.inputs[names.indexOf(name)];
      const other = weights.get(weight);
      if (other !== undefined && !isSame(other, how)) refuse(node, weight);
      weights.set(weight, how);
    }
    const attribute: ModelAttribute = { name: found.attribute, docString: "", kind: "int", value: 0n };
    const changed = { ...node, attributes: new Map([...node.attributes, [attribute.name, attribute]]) };
    readers.add(changed);
    return changed;
  });
  if (weights.size === 0) return { nodes, weights };
  for (const node of nodes) {
    const read = readers.has(node) ? readInside(node) : [...node.inputs, ...readInside(node)];
    const weight = read.find((name) => weights.has(name));
    if (weight !== undefined) refuse(node, weight);
  }
  const given = graph.outputs.find(({ name }) => weights.has(name));
  if (given !== undefined)
    throw new InsituError(
      "invalid-model",
      `the graph gives out "${given.name}", which lies as one device's kernels read it: export it for cpu or webgpu`,
    );
  return { nodes, weights };
}

const isSame = (a: PackedInput, b: PackedInput): boolean =>
  a.packing.key === b.packing.key && a.dims.join() === b.dims.join();

function refuse(node: ModelNode, weight: string): never {
  throw new InsituError(
    "invalid-model",
    `${node.opType} "${node.name}" reads "${weight}", which lies as one device's kernels read it: export it for cpu or webgpu`,
  );
}

/** What the subgraphs of a node read or give out, by its name. */
function readInside({ attributes }: ModelNode): readonly string[] {
  const bodies = [...attributes.values()].flatMap((each): readonly ModelGraph[] =>
    each.kind === "graph" ? [each.value] : each.kind === "graphs" ? each.value : [],
  );
  return bodies.flatMap(({ nodes, outputs }) => [
    ...nodes.flatMap((node) => [...node.inputs, ...readInside(node)]),
    ...outputs.map(({ name }) => name),
  ]);
}

/** True for a model whose weights stay as its file has them. */
export const areAsFiled = (model: Model): boolean => packedIn(model).weights.size === 0;

/**
 * The model with all weights in order. Those that are there are put in order where they lie if the memory is the model's own, and copied if it may be
 * the caller's; stand-ins of others stay what they are.
 */
export async function withPlainWeights(model: Model, held: "own" | "the caller's" | "stand-ins"): Promise<Model> {
  const { nodes, weights } = packedIn(model);
  if (weights.size === 0) return model;
  const ordered = new Map<ModelTensor, ModelTensor>();
  const done = new Map<ByteStorage, ByteStorage>();
  const inOrder = (data: ByteStorage, packing: PackedInput["packing"]): ByteStorage => {
    const known = done.get(data);
    if (known !== undefined) return known;
    const result = held === "own" ? data : data.slice();
    unpack(new Uint8Array(result.buffer, result.byteOffset, result.byteLength), packing);
    done.set(data, result);
    return result;
  };
  for (const tensor of model.graph.initializers) {
    const how = weights.get(tensor.name);
    if (how === undefined) continue;
    const { dims, packing } = how;
    const { deferred, ...rest } = tensor;
    if (deferred instanceof DeferredElements) {
      ordered.set(tensor, deferredTensor({ ...rest, dims }, unpacked(deferred, packing)));
      continue;
    }
    await deferred?.hold();
    const data = (deferred === undefined ? tensor.data : deferred.elements) as ByteStorage | undefined;
    const plain = data === undefined || held === "stand-ins" ? data : inOrder(data, packing);
    ordered.set(tensor, { ...rest, dims, ...(plain && { data: plain }) });
  }
  const plain = mapTensors(model, (tensor) => ordered.get(tensor) ?? tensor);
  return { ...plain, graph: { ...plain.graph, nodes } };
}
