/** Weights that lie as one device's kernels read them, put into the order that their operators mean: once, when a model is loaded. */
import { InsituError } from "../base/error.js";
import { readAttributes } from "../graph/attribute.js";
import type { PackedInput } from "../graph/op.js";
import { mapTensors } from "../onnx/map-tensors.js";
import type { Model, ModelAttribute, ModelNode, ModelTensor } from "../onnx/model.js";
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
    for (const [name, how] of Object.entries(found.inputs)) weights.set(node.inputs[names.indexOf(name)], how);
    const attribute: ModelAttribute = { name: found.attribute, docString: "", kind: "int", value: 0n };
    const changed = { ...node, attributes: new Map([...node.attributes, [attribute.name, attribute]]) };
    readers.add(changed);
    return changed;
  });
  for (const node of nodes) {
    const stranger = readers.has(node) ? undefined : node.inputs.find((name) => weights.has(name));
    if (stranger !== undefined)
      throw new InsituError(
        "invalid-model",
        `${node.opType} "${node.name}" reads "${stranger}", which lies as one device's kernels read it: export it for cpu or webgpu`,
      );
  }
  return { nodes, weights };
}

/** True for a model whose weights stay as its file has them. */
export const areAsFiled = (model: Model): boolean => packedIn(model).weights.size === 0;

/** The model with all weights in order: those that are there where they lie, unless they only stand for others (`areStandIns`). */
export async function withPlainWeights(model: Model, areStandIns = false): Promise<Model> {
  const { nodes, weights } = packedIn(model);
  if (weights.size === 0) return model;
  const ordered = new Map<ModelTensor, ModelTensor>();
  const done = new Set<ByteStorage>();
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
    ordered.set(tensor, { ...rest, dims, ...(data && { data }) });
    if (data === undefined || areStandIns || done.has(data)) continue;
    unpack(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), packing);
    done.add(data);
  }
  const plain = mapTensors(model, (tensor) => ordered.get(tensor) ?? tensor);
  return { ...plain, graph: { ...plain.graph, nodes } };
}
