/**
 * Model → Graph: resolves names to values and operators to declarations, and checks ONNX's structural rules on the way.
 * Infers no shapes: see infer.ts.
 */
import { InsituError } from "../base/error.js";
import { deepestNesting, mostDenseElements } from "../base/limits.js";
import type { Model, ModelAttribute, ModelGraph, ModelNode, ModelValue } from "../onnx/model.js";
import { tensorView } from "../onnx/model.js";
import type { View } from "../tensor/view.js";
import { type AttributeValue, readAttributes } from "./attribute.js";
import { type Dim, isFresh, symbol, unknownDim } from "./dim.js";
import { FunctionExpander, type PlacedNode } from "./functions.js";
import { type Graph, type Node, quoted, shortened, type Value } from "./graph.js";
import type { OperatorSet } from "./op.js";
import { type DenseAllowance, denseView } from "./sparse.js";

/** The newest ai.onnx opset whose meanings the declarations cover. */
export const newestOpset = 28;

/** Names visible at one place: the graph's own values, then those of the graphs around it. */
class Scope {
  readonly values = new Map<string, Value>();
  readonly captured = new Set<Value>();
  readonly parent: Scope | undefined;
  constructor(parent: Scope | undefined) {
    this.parent = parent;
  }
  find(name: string): Value | undefined {
    const own = this.values.get(name);
    if (own !== undefined) return own;
    const outer = this.parent?.find(name);
    if (outer !== undefined) this.captured.add(outer);
    return outer;
  }
}

/** Builds the graph of a model from the operators of `operators`. */
export function buildGraph(model: Model, operators: OperatorSet): Graph {
  const opset = model.opsets.get("");
  if (opset !== undefined && opset > newestOpset) {
    throw new InsituError(
      "unsupported-opset",
      `the model asks for ai.onnx opset ${opset}; the newest known is ${newestOpset}`,
    );
  }
  const around: Surroundings = {
    operators,
    expander: new FunctionExpander(model, operators),
    opsets: model.opsets,
    within: [],
    depth: 0,
    dense: { elements: mostDenseElements },
  };
  return buildOne(model.graph, undefined, around);
}

interface Surroundings {
  readonly operators: OperatorSet;
  readonly expander: FunctionExpander;
  readonly opsets: ReadonlyMap<string, number>;
  /** The functions that the graph came out of. */
  readonly within: readonly string[];
  readonly depth: number;
  readonly dense: DenseAllowance;
}

function buildOne(source: ModelGraph, parent: Scope | undefined, around: Surroundings): Graph {
  const where = `graph "${shortened(source.name)}"`;
  if (around.depth > deepestNesting)
    throw new InsituError("invalid-graph", `${where}: subgraphs are nested deeper than ${deepestNesting}`);
  const scope = new Scope(parent);
  const define = (value: Value, what: string): Value => {
    if (value.name === "") throw new InsituError("invalid-graph", `${where}: ${what} has an empty name`);
    if (scope.values.has(value.name))
      throw new InsituError("invalid-graph", `${where}: ${what} ${quoted(value)} has a name that is taken already`);
    scope.values.set(value.name, value);
    return value;
  };
  const weights = new Map<string, View>();
  const addWeight = (name: string, view: View): void => {
    if (weights.has(name))
      throw new InsituError("invalid-graph", `${where}: initializer "${shortened(name)}" is there twice`);
    weights.set(name, view);
  };
  for (const tensor of source.initializers) addWeight(tensor.name, tensorView(tensor));
  for (const tensor of source.sparseInitializers) addWeight(tensor.values.name, denseView(tensor, around.dense));
  const inputs = source.inputs.map((info) =>
    define(
      {
        name: info.name,
        initializer: weights.get(info.name),
        declared: declaredOf(info, `${where}: input ${quoted(info)}`),
      },
      "input",
    ),
  );
  for (const [name, initializer] of weights) {
    if (!scope.values.has(name)) define({ name, initializer }, "initializer");
  }
  const infos = new Map([...source.valueInfo, ...source.outputs].map((info) => [info.name, info]));
  const placed = around.expander.expand(source.nodes, around.opsets, around.within);
  const nodes = placed.map((entry, position): Node => {
    const label = labelOf(entry.node);
    const operands = dropTrailing(
      entry.node.inputs.map((name) =>
        name === "" ? undefined : (scope.find(name) ?? raiseUnresolved(placed, position, name, label)),
      ),
    );
    const made = (): (Value | undefined)[] =>
      dropTrailing(
        entry.node.outputs.map((name) => {
          const info = infos.get(name);
          return name === ""
            ? undefined
            : define({ name, declared: info && declaredOf(info, label) }, `output of ${label}`);
        }),
      );
    return buildNode(entry, label, operands, made, scope, around);
  });
  const seen = new Set<string>();
  const outputs = source.outputs.map((info) => {
    const value = scope.find(info.name);
    if (value === undefined)
      throw new InsituError("invalid-graph", `${where}: output ${quoted(info)} is computed by no node`);
    if (seen.has(info.name)) throw new InsituError("invalid-graph", `${where}: output ${quoted(info)} is listed twice`);
    seen.add(info.name);
    declaredOf(info, `${where}: output ${quoted(info)}`);
    return value;
  });
  return { name: source.name, inputs, outputs, nodes, captured: [...scope.captured] };
}

function buildNode(
  { node, opsets, within }: PlacedNode,
  label: string,
  inputs: readonly (Value | undefined)[],
  makeOutputs: () => readonly (Value | undefined)[],
  scope: Scope,
  around: Surroundings,
): Node {
  const { operators } = around;
  const version = opsets.get(node.domain);
  if (version === undefined && node.domain === "")
    throw new InsituError("invalid-graph", `${label}: the model imports no ai.onnx opset`);
  const opset = version ?? 1;
  const op = operators.find(node.domain, node.opType, opset);
  if (op === undefined) throw operators.missing(node.domain, node.opType, opset, label);
  const attributes = new Map<string, AttributeValue>();
  const bodies = new Map<string, Graph>();
  for (const [name, attribute] of node.attributes) {
    attributes.set(name, attributeValue(attribute, around.dense));
    if (attribute.kind === "graph")
      bodies.set(name, buildOne(attribute.value, scope, { ...around, opsets, within, depth: around.depth + 1 }));
  }
  const outputs = makeOutputs();
  return {
    name: node.name,
    label,
    op,
    opset,
    inputs,
    outputs,
    attributes,
    attrs: readAttributes(op.attrs, attributes, label),
    wanted: outputs.map((value) => value !== undefined),
    bodies,
  };
}

/** `Attention "layer.3/attn"`, or by its first output where the node has no name. */
function labelOf(node: ModelNode): string {
  const operator = shortened(node.opType);
  if (node.name !== "") return `${operator} "${shortened(node.name)}"`;
  const output = node.outputs.find((name) => name !== "");
  return output === undefined ? operator : `${operator} of "${shortened(output)}"`;
}

function dropTrailing(values: (Value | undefined)[]): (Value | undefined)[] {
  while (values.length > 0 && values.at(-1) === undefined) values.pop();
  return values;
}

/** Throws for an input that no earlier node makes: unordered, cyclic, or unknown altogether. */
function raiseUnresolved(placed: readonly PlacedNode[], position: number, name: string, label: string): never {
  const named = `"${shortened(name)}"`;
  const makers = new Map<string, number>();
  placed.forEach(({ node }, at) => node.outputs.forEach((output) => makers.set(output, at)));
  const maker = makers.get(name);
  if (maker === undefined)
    throw new InsituError(
      "invalid-graph",
      `${label}: input ${named} is no graph input, initializer or output of a node`,
    );
  const other = labelOf(placed[maker].node);
  // Follows the maker's own operands back: reaching this node closes a circle.
  const pending = [maker];
  const visited = new Set<number>();
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    if (at === position)
      throw new InsituError(
        "invalid-graph",
        `${label}: the graph is cyclic: input ${named} of ${other} depends on this node's own output`,
      );
    if (visited.has(at)) continue;
    visited.add(at);
    for (const input of placed[at].node.inputs) if (makers.has(input)) pending.push(makers.get(input)!);
  }
  throw new InsituError(
    "invalid-graph",
    `${label}: input ${named} is computed only later, by ${other}; nodes must be listed in topological order`,
  );
}

/** An attribute as declarations read it. */
function attributeValue(attribute: ModelAttribute, dense: DenseAllowance): AttributeValue {
  switch (attribute.kind) {
    case "int":
    case "float":
    case "string":
      return { kind: attribute.kind, value: attribute.value } as AttributeValue;
    case "ints":
      return { kind: "ints", value: Array.from(attribute.value) };
    case "floats":
      return { kind: "floats", value: Array.from(attribute.value) };
    case "strings":
      return { kind: "strings", value: attribute.value };
    case "tensor":
      return { kind: "tensor", value: tensorView(attribute.value) };
    case "sparse-tensor":
      return { kind: "tensor", value: denseView(attribute.value, dense) };
    case "graph":
      return { kind: "graph" };
    case "type":
    case "tensors":
    case "graphs":
    case "sparse-tensors":
    case "types":
    case "attribute-reference":
      return { kind: "other", what: attribute.kind };
    default:
      return attribute satisfies never;
  }
}

/** A value's declared type and shape; refuses what is not a tensor. */
function declaredOf(info: ModelValue, label: string): Value["declared"] {
  const { type } = info;
  if (type === undefined || type.kind === "undefined") return undefined;
  if (type.kind !== "tensor")
    throw new InsituError(
      "unsupported-type",
      `${label} holds values of kind "${type.kind}"; only tensors are supported`,
    );
  const shape = type.shape?.map((dim): Dim => {
    if (dim === undefined || dim === "") return unknownDim();
    // A name like those of unknown dimensions must not be taken for one of them.
    if (typeof dim === "string") return symbol(isFresh(dim) ? `'${dim}'` : dim);
    if (dim < 0) return unknownDim(); // some exporters write −1 for "any"
    return dim;
  });
  return { type: type.elementType, shape };
}
