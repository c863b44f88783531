/** Replaces tensors anywhere in a model: initializers, attributes, subgraphs and functions. Shares everything that stays. */
import type {
  Model,
  ModelAttribute,
  ModelFunction,
  ModelGraph,
  ModelNode,
  ModelSparseTensor,
  ModelTensor,
} from "./model.js";

/** What becomes of one tensor; returning the tensor itself keeps it. */
type TensorMapper = (tensor: ModelTensor) => ModelTensor;

/** The model with `map` applied to every tensor; parts without a change keep their identity. */
export function mapTensors(model: Model, map: TensorMapper): Model {
  const graph = mapGraph(model.graph, map);
  const functions = mapItems(model.functions, (part) => mapFunction(part, map));
  return graph === model.graph && functions === model.functions ? model : { ...model, graph, functions };
}

function mapItems<T>(items: readonly T[], map: (item: T) => T): readonly T[] {
  const mapped = items.map((item) => map(item));
  return mapped.every((item, i) => item === items[i]) ? items : mapped;
}

function mapGraph(graph: ModelGraph, map: TensorMapper): ModelGraph {
  const initializers = mapItems(graph.initializers, map);
  const sparseInitializers = mapItems(graph.sparseInitializers, (tensor) => mapSparse(tensor, map));
  const nodes = mapItems(graph.nodes, (node) => mapNode(node, map));
  const same =
    initializers === graph.initializers && sparseInitializers === graph.sparseInitializers && nodes === graph.nodes;
  return same ? graph : { ...graph, initializers, sparseInitializers, nodes };
}

function mapSparse(tensor: ModelSparseTensor, map: TensorMapper): ModelSparseTensor {
  const values = map(tensor.values);
  const indices = map(tensor.indices);
  return values === tensor.values && indices === tensor.indices ? tensor : { ...tensor, values, indices };
}

function mapNode(node: ModelNode, map: TensorMapper): ModelNode {
  const attributes = mapAttributes(node.attributes, map);
  return attributes === node.attributes ? node : { ...node, attributes };
}

function mapFunction(part: ModelFunction, map: TensorMapper): ModelFunction {
  const nodes = mapItems(part.nodes, (node) => mapNode(node, map));
  const attributeDefaults = mapAttributes(part.attributeDefaults, map);
  return nodes === part.nodes && attributeDefaults === part.attributeDefaults
    ? part
    : { ...part, nodes, attributeDefaults };
}

type Attributes = ReadonlyMap<string, ModelAttribute>;

function mapAttributes(attributes: Attributes, map: TensorMapper): Attributes {
  let mapped: Map<string, ModelAttribute> | undefined;
  for (const [name, attribute] of attributes) {
    const next = mapAttribute(attribute, map);
    if (next !== attribute) (mapped ??= new Map(attributes)).set(name, next);
  }
  return mapped ?? attributes;
}

function mapAttribute(attribute: ModelAttribute, map: TensorMapper): ModelAttribute {
  switch (attribute.kind) {
    case "tensor":
      return withValue(attribute, map(attribute.value));
    case "graph":
      return withValue(attribute, mapGraph(attribute.value, map));
    case "sparse-tensor":
      return withValue(attribute, mapSparse(attribute.value, map));
    case "tensors":
      return withValue(attribute, mapItems(attribute.value, map));
    case "graphs":
      return withValue(
        attribute,
        mapItems(attribute.value, (graph) => mapGraph(graph, map)),
      );
    case "sparse-tensors":
      return withValue(
        attribute,
        mapItems(attribute.value, (tensor) => mapSparse(tensor, map)),
      );
    default:
      return attribute;
  }
}

const withValue = <T extends { readonly value: unknown }>(attribute: T, value: T["value"]): T =>
  value === attribute.value ? attribute : { ...attribute, value };
