/**
 * Facts for every value of a graph: types, shapes over symbols, and contents where they are known. Small nodes whose operands
 * are all constant are computed on the way, since their contents decide shapes further on.
 */
import { InsituError } from "../base/error.js";
import { View } from "../tensor/view.js";
import { evaluate, inferOutputs } from "./call.js";
import { type Dim, isKnownShape, type Shape, SymbolicDim } from "./dim.js";
import { type Fact, factOfView, knownSize, knownView } from "./fact.js";
import type { Graph, Node, Value } from "./graph.js";

/** What facts are kept in while a graph, or one run of a body, is looked at. */
export type Facts = Map<Value, Fact>;

/** Elements that a node computed at load may read or write, at most. */
const mostFoldedElements = 2 ** 16;

/** Shape rules applied for one model, at most: nested loops look at their bodies several times. */
const mostRules = 1_000_000;

/** What one inference shares: a count, so that hostile nesting ends, and whether the file's own shapes are believed. */
export interface Inference {
  rules: number;
  /** At load, declared shapes fill in what rules cannot tell; for a run, only what follows from the operands counts. */
  readonly believeDeclared: boolean;
}

/** Infers a main graph from its declared inputs and stores each fact in its value. */
export function inferGraph(graph: Graph): void {
  const facts: Facts = new Map();
  const inputs = graph.inputs.map((value): Fact => {
    const type = value.declared?.type ?? value.initializer?.type;
    if (type === undefined)
      throw new InsituError("invalid-graph", `graph "${graph.name}": input "${value.name}" has no element type`);
    return { type, shape: value.declared?.shape };
  });
  inferBody(graph, inputs, facts, { rules: 0, believeDeclared: true });
  for (const [value, fact] of facts) value.fact = fact;
}

/** Infers a graph from facts about its inputs; `facts` already holds what enclosing graphs know, and receives the rest. */
export function inferBody(graph: Graph, inputs: readonly Fact[], facts: Facts, inference: Inference): readonly Fact[] {
  if (inputs.length !== graph.inputs.length) {
    throw new InsituError(
      "invalid-graph",
      `graph "${graph.name}" takes ${graph.inputs.length} inputs, got ${inputs.length}`,
    );
  }
  graph.inputs.forEach((value, at) => facts.set(value, complete(inputs[at], value, inference)));
  const factOf = (value: Value): Fact => {
    const fact = facts.get(value);
    if (fact !== undefined) return fact;
    if (value.initializer === undefined) throw new InsituError("internal", `value "${value.name}" has no fact`);
    const constant = factOfView(value.initializer);
    facts.set(value, constant);
    return constant;
  };
  for (const node of graph.nodes) {
    if (++inference.rules > mostRules)
      throw new InsituError(
        "invalid-graph",
        `${node.label}: nested subgraphs need more than ${mostRules} inference steps`,
      );
    const operands = node.inputs.map((value) => value && factOf(value));
    const body = (attribute: string, given: readonly Fact[]): readonly Fact[] =>
      inferBody(bodyOf(node, attribute), given, facts, inference);
    const results = inferOutputs(node, operands, body);
    const folded = fold(node, operands, results);
    node.outputs.forEach((value, at) => {
      if (value === undefined) return;
      const fact = folded?.[at] ?? complete(results[at], value, inference);
      const constant = fact.constant ?? knownView(fact);
      facts.set(value, constant === undefined ? fact : { ...fact, constant });
    });
  }
  return graph.outputs.map(factOf);
}

/** The subgraph behind an attribute; throws where the node has none. */
export function bodyOf(node: Node, attribute: string): Graph {
  const body = node.bodies.get(attribute);
  if (body === undefined)
    throw new InsituError("invalid-graph", `${node.label}: attribute "${attribute}" must be a graph`);
  return body;
}

/** The node's outputs as constants, where all operands are and the work is small. */
function fold(node: Node, operands: readonly (Fact | undefined)[], results: readonly Fact[]): Fact[] | undefined {
  if (node.op.random || node.bodies.size > 0) return undefined;
  const inputs: (View | undefined)[] = [];
  let elements = 0;
  for (const operand of operands) {
    const view = operand && knownView(operand);
    if (operand !== undefined && view === undefined) return undefined;
    inputs.push(view);
    elements += view?.size ?? 0;
  }
  for (const result of results) {
    // A shape that data decide is at most as large as the operands in all operators that are worth folding.
    elements += isKnownShape(result.shape) ? knownSize(result)! : 0;
  }
  if (!(elements <= mostFoldedElements)) return viewedConstants(node, inputs, results);
  const none = (): never => {
    throw new InsituError("internal", `${node.label} has no subgraphs`);
  };
  return evaluate(node, inputs, operands, none, none).map((view, at) =>
    view === undefined ? results[at] : factOfView(view),
  );
}

/** Outputs that are a constant's own bytes under another shape: they cost nothing, whatever their size. */
function viewedConstants(
  node: Node,
  inputs: readonly (View | undefined)[],
  results: readonly Fact[],
): Fact[] | undefined {
  const inputNames = Object.keys(node.op.inputs);
  const facts = Object.keys(node.op.outputs).map((name, at) => {
    const effect = node.op.effects[name];
    const source = effect?.kind === "view" ? inputs[inputNames.indexOf(effect.of)] : undefined;
    const { type, shape } = results[at];
    if (source === undefined || !source.contiguous || source.type !== type || !isKnownShape(shape)) return undefined;
    return factOfView(new View(type, shape, source.data, source.offset));
  });
  return facts.every((fact) => fact !== undefined) ? facts : undefined;
}

const isFresh = (dim: Dim): boolean => dim instanceof SymbolicDim && /^\?\d+$/.test(String(dim));

/** The inferred fact, with what the file declares where inference could not tell. */
function complete(fact: Fact, value: Value, { believeDeclared }: Inference): Fact {
  const { declared } = value;
  if (declared?.type !== undefined && declared.type !== fact.type) {
    throw new InsituError("type-mismatch", `value "${value.name}" is declared ${declared.type}, but is ${fact.type}`);
  }
  const known = believeDeclared ? declared?.shape : undefined;
  if (known === undefined || fact.constant !== undefined) return fact;
  if (fact.shape === undefined) return { ...fact, shape: known };
  if (fact.shape.length !== known.length || fact.shape.every((dim) => !isFresh(dim))) return fact;
  const shape: Shape = fact.shape.map((dim, axis) => (isFresh(dim) ? known[axis] : dim));
  return { ...fact, shape };
}
