/**
 * Model-local functions: puts a function's nodes in the place of each call. Works on names, before values exist:
 * formals become the caller's names, everything else inside gets the call's prefix, attribute references become attributes.
 * A function that spells out an operator of a vendor's, for runtimes without it, gives way to that operator.
 */
import { InsituError } from "../base/error.js";
import { deepestCalls, longestMadeName, mostExpandedParts } from "../base/limits.js";
import type { Model, ModelAttribute, ModelFunction, ModelGraph, ModelNode, ModelValue } from "../onnx/model.js";
import type { Op, OperatorSet } from "./op.js";

/** A node, the opset versions its operator is looked up in (a function brings its own), and the functions it came out of. */
export interface PlacedNode {
  readonly node: ModelNode;
  readonly opsets: ReadonlyMap<string, number>;
  readonly within: readonly string[];
}

const plainDomain = (domain: string): string => (domain === "ai.onnx" ? "" : domain);

const keyOf = (domain: string, name: string, overload: string): string =>
  `${plainDomain(domain)}::${name}${overload === "" ? "" : `:${overload}`}`;

/** Expands the calls of one model's local functions. */
export class FunctionExpander {
  readonly #functions = new Map<string, ModelFunction>();
  readonly #parts = new Map<ModelFunction, number>();
  readonly #mostParts: number;
  #expanded = 0;
  readonly #names: FreshNames;
  readonly #operators: OperatorSet;

  constructor(model: Model, operators: OperatorSet) {
    this.#operators = operators;
    for (const local of model.functions) {
      const key = keyOf(local.domain, local.name, local.overload);
      if (this.#functions.has(key)) throw new InsituError("invalid-graph", `function ${key} is defined twice`);
      this.#functions.set(key, local);
      this.#parts.set(local, partsOf(local.nodes));
    }
    const own = model.functions.length === 0 ? 0 : partsOf(model.graph.nodes);
    this.#mostParts = mostExpandedParts([...this.#parts.values()].reduce((sum, parts) => sum + parts, own));
    this.#names = new FreshNames(model.functions.length === 0 ? [] : namesIn(model.graph));
  }

  /** The nodes with every call of a local function replaced by its body, in order; `within` are the functions around them. */
  expand(
    nodes: readonly ModelNode[],
    opsets: ReadonlyMap<string, number>,
    within: readonly string[] = [],
  ): readonly PlacedNode[] {
    const result: PlacedNode[] = [];
    this.#expand(nodes, opsets, within, result);
    return result;
  }

  #expand(
    nodes: readonly ModelNode[],
    opsets: ReadonlyMap<string, number>,
    within: readonly string[],
    result: PlacedNode[],
  ): void {
    for (const node of nodes) {
      const key = this.#functions.size === 0 ? "" : keyOf(node.domain, node.opType, node.overload);
      const local = this.#functions.get(key);
      if (local === undefined) {
        result.push({ node, opsets, within });
        continue;
      }
      const native = this.#nativeCall(node, local, opsets);
      if (native !== undefined) {
        result.push({ node: native, opsets, within });
        continue;
      }
      if (within.includes(key))
        throw new InsituError("invalid-graph", `function ${key} calls itself: ${[...within, key].join(" → ")}`);
      if (within.length >= deepestCalls)
        throw new InsituError(
          "invalid-graph",
          `function ${within[0]}: functions call one another deeper than ${deepestCalls}`,
        );
      this.#expanded += this.#parts.get(local)!;
      if (this.#expanded > this.#mostParts)
        throw new InsituError(
          "invalid-graph",
          `function ${within[0] ?? key}: functions expand to more than ${this.#mostParts} parts, the most that a file of this size may ask for`,
        );
      const inner = placeBody(local, node, key, this.#names);
      // What hands an input through is a node of ai.onnx, which the function need not import.
      const own = local.opsets.has("") ? local.opsets : new Map(local.opsets).set("", opsets.get("") ?? 1);
      this.#expand(inner, own, [...within, key], result);
    }
  }

  /** The call as one of the operator that the function spells out; undefined where there is none of that name that takes what is given. */
  #nativeCall(node: ModelNode, local: ModelFunction, opsets: ReadonlyMap<string, number>): ModelNode | undefined {
    const domain = plainDomain(node.domain);
    // ONNX leaves open which of the two is meant. Its own operators a model may mean otherwise; a vendor's name says whose meaning it has.
    if (domain === "" || node.overload !== "") return undefined;
    const op = this.#operators.find(domain, node.opType, opsets.get(node.domain) ?? 1);
    const attributes = new Map([...local.attributeDefaults, ...node.attributes]);
    return op !== undefined && takes(op, node, attributes) ? { ...node, attributes } : undefined;
  }
}

/** True if the operator has the inputs, outputs and attributes of a call. */
function takes(op: Op, { inputs, outputs }: ModelNode, attributes: ReadonlyMap<string, ModelAttribute>): boolean {
  const [given, made] = [Object.values(op.inputs), Object.values(op.outputs)];
  const isOpen = [...given, ...made].some(({ arity }) => arity === "variadic");
  return (
    !isOpen &&
    inputs.length <= given.length &&
    outputs.length <= made.length &&
    given.every(({ arity }, at) => arity === "optional" || (inputs[at] ?? "") !== "") &&
    [...attributes].every(([name, { kind }]) => op.attrs[name]?.kind === kind)
  );
}

/** Nodes, and what they list: names, numbers and texts of attributes, what their graphs hold. Tensors are shared and count once. */
function partsOf(nodes: readonly ModelNode[]): number {
  let parts = 0;
  for (const node of nodes) {
    parts += 1 + node.inputs.length + node.outputs.length;
    for (const attribute of node.attributes.values()) parts += partsOfAttribute(attribute);
  }
  return parts;
}

function partsOfAttribute(attribute: ModelAttribute): number {
  switch (attribute.kind) {
    case "graph":
      return partsOfGraph(attribute.value);
    case "graphs":
      return attribute.value.reduce((sum, graph) => sum + partsOfGraph(graph), 0);
    case "ints":
    case "floats":
    case "strings":
      return 1 + attribute.value.length;
    default:
      return 1;
  }
}

const partsOfGraph = ({ nodes, inputs, outputs, valueInfo, initializers, sparseInitializers }: ModelGraph): number =>
  partsOf(nodes) + inputs.length + outputs.length + valueInfo.length + initializers.length + sparseInitializers.length;

/** Every name of a value in a graph and in the graphs inside it. */
function* namesIn(graph: ModelGraph): Generator<string> {
  for (const { name } of [...graph.inputs, ...graph.initializers]) yield name;
  for (const { values } of graph.sparseInitializers) yield values.name;
  for (const { outputs, attributes } of graph.nodes) {
    yield* outputs;
    for (const attribute of attributes.values()) {
      if (attribute.kind === "graph") yield* namesIn(attribute.value);
      if (attribute.kind === "graphs") for (const inner of attribute.value) yield* namesIn(inner);
    }
  }
}

/** Names that nothing in the model has yet, of limited length. */
class FreshNames {
  readonly #taken: Set<string>;
  readonly #counts = new Map<string, number>();

  constructor(taken: Iterable<string>) {
    this.#taken = new Set(taken);
  }

  /** A new name that tells where it comes from. */
  make(prefix: string, name: string): string {
    const base = joined(prefix, name);
    let made = base;
    let count = this.#counts.get(base) ?? 2;
    for (; this.#taken.has(made); count++) made = `${base}_${count}`;
    if (made !== base) this.#counts.set(base, count);
    this.#taken.add(made);
    return made;
  }
}

/** `prefix/name`, with each part cut in its middle where it is long. */
const joined = (prefix: string, name: string): string => `${cut(prefix)}/${cut(name)}`;

const cut = (text: string): string => {
  const most = longestMadeName / 2;
  return text.length <= most ? text : `${text.slice(0, most / 2)}…${text.slice(-most / 2)}`;
};

/** The function's nodes under the caller's names. */
function placeBody(local: ModelFunction, call: ModelNode, key: string, fresh: FreshNames): ModelNode[] {
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
  const prefix = call.name || call.outputs.find((name) => name !== "") || local.name;
  const names = new Map<string, string>(local.inputs.map((name, at) => [name, call.inputs[at] ?? ""]));
  const handedThrough: ModelNode[] = [];
  local.outputs.forEach((name, at) => {
    const actual = call.outputs[at] ?? "";
    if (actual === "") return;
    // An output that is an input, or comes twice, needs a node that gives the caller's name to the same value.
    if (names.has(name)) handedThrough.push(identity(names.get(name)!, actual, joined(prefix, "identity")));
    else names.set(name, actual);
  });
  const rename = (name: string): string => {
    if (name === "") return "";
    let made = names.get(name);
    if (made === undefined) names.set(name, (made = fresh.make(prefix, name)));
    return made;
  };
  return [...local.nodes.map((node) => placeNode(node, rename, attributes, prefix)), ...handedThrough];
}

const identity = (from: string, to: string, name: string): ModelNode => ({
  name,
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
    const actual = attribute.kind === "attribute-reference" ? given.get(attribute.refName) : attribute;
    if (actual === undefined) continue; // a reference to an attribute that the call leaves out
    attributes.set(
      name,
      placeAttribute({ ...actual, name }, rename, given, prefix, attribute.kind === "attribute-reference"),
    );
  }
  return {
    ...node,
    // A node without a name stays without: a prefix alone would name all of them alike.
    name: node.name === "" ? "" : joined(prefix, node.name),
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
