/**
 * Model-local functions: puts a function's nodes in the place of each call. Works on names, before values exist:
 * formals become the caller's names, everything else inside gets the call's prefix, attribute references become attributes.
 */
import { InsituError } from "../base/error.js";
import type { Model, ModelAttribute, ModelFunction, ModelGraph, ModelNode, ModelValue } from "../onnx/model.js";

/** Functions that call functions, at most this deep. */
const deepest = 64;

/** Nodes that expansion may make, at most: a small file can ask for exponentially many. */
const mostNodes = 50_000;

/** A node and the opset versions its operator is looked up in: a function brings its own. */
export interface PlacedNode {
  readonly node: ModelNode;
  readonly opsets: ReadonlyMap<string, number>;
}

const plainDomain = (domain: string): string => (domain === "ai.onnx" ? "" : domain);

const keyOf = (domain: string, name: string, overload: string): string =>
  `${plainDomain(domain)}::${name}${overload === "" ? "" : `:${overload}`}`;

/** Expands the calls of one model's local functions. */
export class FunctionExpander {
  readonly #functions = new Map<string, ModelFunction>();
  #expanded = 0;

  constructor(model: Model) {
    for (const local of model.functions) {
      const key = keyOf(local.domain, local.name, local.overload);
      if (this.#functions.has(key)) throw new InsituError("invalid-graph", `function ${key} is defined twice`);
      this.#functions.set(key, local);
    }
  }

  /** The nodes with every call of a local function replaced by its body, in order. */
  expand(nodes: readonly ModelNode[], opsets: ReadonlyMap<string, number>): PlacedNode[] {
    const result: PlacedNode[] = [];
    this.#expand(nodes, opsets, [], result);
    return result;
  }

  #expand(
    nodes: readonly ModelNode[],
    opsets: ReadonlyMap<string, number>,
    stack: readonly string[],
    result: PlacedNode[],
  ): void {
    for (const node of nodes) {
      const key = keyOf(node.domain, node.opType, node.overload);
      const local = this.#functions.get(key);
      if (local === undefined) {
        if (stack.length > 0 && ++this.#expanded > mostNodes) {
          throw new InsituError(
            "invalid-graph",
            `function ${stack[0]}: functions expand to more than ${mostNodes} nodes`,
          );
        }
        result.push({ node, opsets });
        continue;
      }
      if (stack.includes(key))
        throw new InsituError("invalid-graph", `function ${key} calls itself: ${[...stack, key].join(" → ")}`);
      if (stack.length >= deepest)
        throw new InsituError(
          "invalid-graph",
          `function ${stack[0]}: functions call one another deeper than ${deepest}`,
        );
      const prefix = `${node.name || node.outputs.find((name) => name !== "") || local.name}/`;
      this.#expand(placeBody(local, node, key, prefix), local.opsets, [...stack, key], result);
    }
  }
}

/** The function's nodes under the caller's names. */
function placeBody(local: ModelFunction, call: ModelNode, key: string, prefix: string): ModelNode[] {
  const refuse = (message: string): never => {
    throw new InsituError("invalid-graph", `${call.opType} "${call.name}": function ${key} ${message}`);
  };
  if (call.inputs.length > local.inputs.length)
    refuse(`takes ${local.inputs.length} inputs, got ${call.inputs.length}`);
  if (call.outputs.length > local.outputs.length)
    refuse(`makes ${local.outputs.length} outputs, got ${call.outputs.length} names`);
  const attributes = new Map(local.attributeDefaults);
  for (const [name, attribute] of call.attributes) {
    if (!local.attributes.includes(name) && !local.attributeDefaults.has(name)) refuse(`has no attribute "${name}"`);
    attributes.set(name, attribute);
  }
  const names = new Map<string, string>(local.inputs.map((name, at) => [name, call.inputs[at] ?? ""]));
  const handedThrough: ModelNode[] = [];
  local.outputs.forEach((name, at) => {
    const actual = call.outputs[at] ?? "";
    if (actual === "") return;
    // An output that is an input, or comes twice, needs a node that gives the caller's name to the same value.
    if (names.has(name)) handedThrough.push(identity(names.get(name)!, actual, prefix));
    else names.set(name, actual);
  });
  const rename = (name: string): string => (name === "" ? "" : (names.get(name) ?? prefix + name));
  return [...local.nodes.map((node) => placeNode(node, rename, attributes, prefix)), ...handedThrough];
}

const identity = (from: string, to: string, prefix: string): ModelNode => ({
  name: `${prefix}identity`,
  opType: "Identity",
  domain: "",
  overload: "",
  inputs: [from],
  outputs: [to],
  attributes: new Map(),
  metadata: new Map(),
  docString: "",
});

type Rename = (name: string) => string;

function placeNode(
  node: ModelNode,
  rename: Rename,
  given: ReadonlyMap<string, ModelAttribute>,
  prefix: string,
): ModelNode {
  const attributes = new Map<string, ModelAttribute>();
  for (const [name, attribute] of node.attributes) {
    const actual = attribute.kind === "reference" ? given.get(attribute.refName) : attribute;
    if (actual === undefined) continue; // a reference to an attribute that the call leaves out
    attributes.set(name, placeAttribute({ ...actual, name }, rename, given, prefix, attribute.kind === "reference"));
  }
  return {
    ...node,
    name: prefix + node.name,
    inputs: node.inputs.map(rename),
    outputs: node.outputs.map(rename),
    attributes,
  };
}

function placeAttribute(
  attribute: ModelAttribute,
  rename: Rename,
  given: ReadonlyMap<string, ModelAttribute>,
  prefix: string,
  fromCaller: boolean,
): ModelAttribute {
  // A graph handed in by the caller speaks the caller's names already.
  if (fromCaller) return attribute;
  if (attribute.kind === "graph") return { ...attribute, value: placeGraph(attribute.value, rename, given, prefix) };
  if (attribute.kind === "graphs")
    return { ...attribute, value: attribute.value.map((graph) => placeGraph(graph, rename, given, prefix)) };
  return attribute;
}

function placeGraph(
  graph: ModelGraph,
  rename: Rename,
  given: ReadonlyMap<string, ModelAttribute>,
  prefix: string,
): ModelGraph {
  const renameValue = (value: ModelValue): ModelValue => ({ ...value, name: rename(value.name) });
  return {
    ...graph,
    inputs: graph.inputs.map(renameValue),
    outputs: graph.outputs.map(renameValue),
    valueInfo: graph.valueInfo.map(renameValue),
    initializers: graph.initializers.map((tensor) => ({ ...tensor, name: rename(tensor.name) })),
    sparseInitializers: graph.sparseInitializers.map((tensor) => ({
      ...tensor,
      values: { ...tensor.values, name: rename(tensor.values.name) },
    })),
    nodes: graph.nodes.map((node) => placeNode(node, rename, given, prefix)),
  };
}
