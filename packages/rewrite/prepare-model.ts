/**
 * A model made ready to be rewritten: one graph where an If chose between two, local functions put in the place of their calls, and every
 * node in the meaning that its operator has in a newer opset. Nodes whose operator did not change keep their bytes; what cannot be carried over is refused by name.
 */
import { InsituError } from "#insitu/base/error.js";
import { withAssignments } from "./assign-slices.js";
import { FunctionExpander, type PlacedNode } from "#insitu/graph/functions.js";
import { attributes as makeAttributes, initializer } from "#insitu/onnx/build.js";
import type { Model, ModelAttribute, ModelGraph, ModelNode, ModelTensor } from "#insitu/onnx/model.js";
import { operators } from "#insitu/ops/index.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { joinTables } from "./rotary-tables.js";
import { takeBranch } from "./take-branch.js";

/** The oldest opset that is carried over. */
export const oldestOpset = 13;

/** The IR version that came with each opset. */
const irVersions: ReadonlyMap<number, number> = new Map([
  [24, 12],
  [25, 13],
]);

/** Carries one node over; undefined leaves it as it is. */
type Converter = (node: ModelNode, from: number, conversion: Conversion) => ModelNode | undefined;

/** The model in `opset` or, where its own is newer, in that. */
export function prepareModel(model: Model, opset: number, mayOnlyContinue = false): Model {
  const from = model.opsets.get("") ?? 0;
  if (from < oldestOpset)
    throw new InsituError(
      "unsupported-opset",
      `the model has ai.onnx opset ${from}; ${oldestOpset} is the oldest that can be rewritten: convert it with its exporter first`,
    );
  const plain = withConstants(model);
  const single = takeBranch(plain, mayOnlyContinue)?.model ?? plain;
  return withAssignments(converted(joinTables(single), from, Math.max(from, opset)));
}

/** Before IR version 4 every weight had to be listed among the inputs, and was a constant all the same. */
function withConstants(model: Model): Model {
  if (model.irVersion >= 4) return model;
  const weights = new Set(model.graph.initializers.map(({ name }) => name));
  const inputs = model.graph.inputs.filter(({ name }) => !weights.has(name));
  return { ...model, graph: { ...model.graph, inputs } };
}

/** The model with every node in the meaning of an opset. */
function converted(model: Model, from: number, to: number): Model {
  if (from === to && model.functions.length === 0) return model;
  const conversion = new Conversion(model, to);
  const graph = conversion.graph(model.graph, model.opsets);
  const opsets = new Map(model.opsets).set("", to);
  for (const [domain, version] of conversion.domains) if (!opsets.has(domain)) opsets.set(domain, version);
  return {
    ...model,
    irVersion: Math.max(model.irVersion, irVersions.get(to) ?? 13),
    opsets,
    functions: [],
    graph: { ...graph, initializers: [...graph.initializers, ...conversion.initializers] },
  };
}

class Conversion {
  readonly initializers: ModelTensor[] = [];
  readonly #made = new Set<string>();
  /** Domains that functions brought along. */
  readonly domains = new Map<string, number>();
  readonly #expander: FunctionExpander;
  readonly #to: number;
  readonly #names: Set<string>;
  constructor(model: Model, to: number) {
    this.#expander = new FunctionExpander(model, operators);
    this.#to = to;
    this.#names = new Set([...model.graph.initializers, ...model.graph.inputs].map(({ name }) => name));
    for (const node of model.graph.nodes) for (const name of node.outputs) this.#names.add(name);
  }

  graph(graph: ModelGraph, opsets: ReadonlyMap<string, number>, within: readonly string[] = []): ModelGraph {
    const nodes = this.#expander.expand(graph.nodes, opsets, within).map((placed) => this.#node(placed));
    return nodes.length === graph.nodes.length && nodes.every((node, at) => node === graph.nodes[at])
      ? graph
      : { ...graph, nodes };
  }

  #node({ node, opsets, within }: PlacedNode): ModelNode {
    const inner = this.#bodies(node, opsets, within);
    if (node.domain !== "") {
      const version = opsets.get(node.domain);
      if (version !== undefined) this.domains.set(node.domain, version);
      return inner;
    }
    const from = opsets.get("") ?? this.#to;
    const [before, after] = [from, this.#to].map((opset) => operators.find("", node.opType, opset));
    if (before === undefined || before === after) return inner;
    const converter = converters[node.opType];
    if (after === undefined || converter === undefined)
      throw new InsituError(
        "unsupported-opset",
        `${labelOf(node)}: ${node.opType} means something else in opset ${this.#to} than in ${from}, and cannot be carried over`,
      );
    return converter(inner, from, this) ?? inner;
  }

  #bodies(node: ModelNode, opsets: ReadonlyMap<string, number>, within: readonly string[]): ModelNode {
    let changed: Map<string, ModelAttribute> | undefined;
    for (const [name, attribute] of node.attributes) {
      if (attribute.kind !== "graph") continue;
      const value = this.graph(attribute.value, opsets, within);
      if (value !== attribute.value) (changed ??= new Map(node.attributes)).set(name, { ...attribute, value });
    }
    return changed === undefined ? node : { ...node, attributes: changed };
  }

  /** The name of a new constant list. */
  integers(list: readonly number[]): string {
    const base = `insitu/axes_${list.join("_").replaceAll("-", "minus_")}`;
    let name = base;
    for (let count = 2; this.#names.has(name); count++) {
      if (this.#made.has(name)) return name;
      name = `${base}_${count}`;
    }
    this.#names.add(name);
    this.#made.add(name);
    this.initializers.push(initializer(name, new Tensor("int64", BigInt64Array.from(list, BigInt), [list.length])));
    return name;
  }
}

const labelOf = (node: ModelNode): string => `${node.opType} "${node.name || node.outputs[0] || ""}"`;

const without = (node: ModelNode, name: string): ReadonlyMap<string, ModelAttribute> =>
  new Map([...node.attributes].filter(([own]) => own !== name));

const same: Converter = () => undefined;

/** Axes were an attribute and are an operand now. */
const reduce: Converter = (node, from, conversion) => {
  const axes = node.attributes.get("axes");
  if (from >= 18 || axes?.kind !== "ints") return undefined;
  return {
    ...node,
    attributes: without(node, "axes"),
    inputs: [node.inputs[0], conversion.integers(Array.from(axes.value, Number))],
  };
};

/** Equal parts were told by the number of outputs. */
const split: Converter = (node) => {
  if ((node.inputs[1] ?? "") !== "" || node.attributes.has("num_outputs")) return undefined;
  return {
    ...node,
    attributes: new Map([...node.attributes, ...makeAttributes({ num_outputs: node.outputs.length })]),
  };
};

const batchNormalization: Converter = (node) => {
  if (node.outputs.filter((name) => name !== "").length === 1) return undefined;
  throw new InsituError(
    "unsupported-opset",
    `${labelOf(node)}: its outputs beside the first have no place in newer opsets`,
  );
};

const groupNormalization: Converter = (node, from) => {
  if (from >= 21) return undefined;
  throw new InsituError(
    "unsupported-opset",
    `${labelOf(node)}: scale and bias have one entry for each group, newer opsets want one for each channel`,
  );
};

/** Operators whose declaration changes between the opsets, and how their nodes are carried over. */
const converters: Readonly<Record<string, Converter | undefined>> = {
  Attention: same, // a mask that broadcasts along the keys is looked at with the attention
  BatchNormalization: batchNormalization,
  Cast: same,
  CastLike: same,
  DequantizeLinear: same,
  GroupNormalization: groupNormalization,
  Pad: same,
  QuantizeLinear: same,
  ReduceL1: reduce,
  ReduceL2: reduce,
  ReduceLogSum: reduce,
  ReduceLogSumExp: reduce,
  ReduceMax: reduce,
  ReduceMean: reduce,
  ReduceMin: reduce,
  ReduceProd: reduce,
  ReduceSumSquare: reduce,
  Reshape: same,
  ScatterElements: same,
  ScatterND: same,
  Shape: same,
  Split: split,
};
