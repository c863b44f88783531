/**
 * Facts for every value of a graph: types, shapes over symbols, and contents where they are known. Small nodes whose operands
 * are all constant are computed on the way, since their contents decide shapes further on.
 */
import { InsituError } from "../base/error.js";
import { alwaysFolded, mostFoldedElements, mostFoldedWork, mostRules, mostTermsWorkedOn } from "../base/limits.js";
import { View } from "../tensor/view.js";
import { callReference, inferOutputs, workOf } from "./call.js";
import { isFresh, isKnownShape, type Shape, withTermAllowance } from "./dim.js";
import { type Fact, factOfView, knownSize, knownView } from "./fact.js";
import type { Graph, Node, Value } from "./graph.js";

/** What facts are kept in while a graph, or one run of a body, is looked at. */
export type Facts = Map<Value, Fact>;

/** What one inference may still do, so that hostile graphs end, and whether the file's own shapes are believed. */
interface Inference {
  /** Shape rules to apply. */
  rules: number;
  readonly mostRules: number;
  /** Work on constants. */
  work: number;
  /** At load, declared shapes fill in what rules cannot tell; for a run, only what follows from the operands counts. */
  readonly believeDeclared: boolean;
}

/** Does what infers a graph, within what its size allows. */
function inferring<T>(graph: Graph, believeDeclared: boolean, work: (inference: Inference) => T): T {
  const nodes = countNodes(graph);
  const rules = mostRules(nodes);
  const inference = { rules, mostRules: rules, work: mostFoldedWork(nodes), believeDeclared };
  return withTermAllowance(mostTermsWorkedOn(nodes), () => work(inference));
}

/** The nodes of a graph and of the graphs inside it. */
function countNodes(graph: Graph): number {
  let count = graph.nodes.length;
  for (const node of graph.nodes) for (const body of node.bodies.values()) count += countNodes(body);
  return count;
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
  inferring(graph, true, (inference) => infer(graph, inputs, facts, inference));
  for (const [value, fact] of facts) value.fact = fact;
}

/**
 * Infers a graph from facts about its inputs and from nothing that the file declares; `facts` already holds what enclosing graphs know,
 * and receives the rest.
 */
export const inferBody = (graph: Graph, inputs: readonly Fact[], facts: Facts): readonly Fact[] =>
  inferring(graph, false, (inference) => infer(graph, inputs, facts, inference));

function infer(graph: Graph, inputs: readonly Fact[], facts: Facts, inference: Inference): readonly Fact[] {
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
    if (--inference.rules < 0)
      throw new InsituError(
        "invalid-graph",
        `${node.label}: nested subgraphs need more than ${inference.mostRules} inference steps`,
      );
    const operands = node.inputs.map((value) => value && factOf(value));
    const body = (attribute: string, given: readonly Fact[]): readonly Fact[] =>
      infer(bodyOf(node, attribute), given, facts, inference);
    const results = inferOutputs(node, operands, body);
    const folded = fold(node, operands, results, inference);
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

/** The node's outputs as constants, where all operands are, the work is small and there is work left. */
function fold(
  node: Node,
  operands: readonly (Fact | undefined)[],
  results: readonly Fact[],
  inference: Inference,
): Fact[] | undefined {
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
  const isAllowed = (work: number): boolean => work <= alwaysFolded || work <= inference.work;
  if (!(elements <= mostFoldedElements && isAllowed(elements))) return viewedConstants(node, inputs, results);
  inference.work -= elements;
  const work = workOf(node, operands) + charactersOf(inputs);
  if (!isAllowed(work)) return viewedConstants(node, inputs, results);
  inference.work -= work;
  const none = (): never => {
    throw new InsituError("internal", `${node.label} has no subgraphs`);
  };
  const outputs = results.map(({ type, shape }, at) =>
    node.wanted[at] && isKnownShape(shape) ? View.allocate(type, shape) : undefined,
  );
  callReference(node, inputs, outputs, results, none);
  return outputs.map((view, at) => (view === undefined ? results[at] : factOfView(view)));
}

/** Characters of strings: each is looked at. */
function charactersOf(views: readonly (View | undefined)[]): number {
  let count = 0;
  for (const view of views) if (Array.isArray(view?.data)) for (const text of view.data) count += text.length;
  return count;
}

/** Outputs that are a constant's own bytes under another shape: they cost nothing, whatever their size. */
function viewedConstants(
  node: Node,
  inputs: readonly (View | undefined)[],
  results: readonly Fact[],
): Fact[] | undefined {
  const inputNames = Object.keys(node.op.inputs);
  const outputNames = Object.keys(node.op.outputs);
  const facts = results.map(({ type, shape }, at) => {
    const effect = node.op.effects[outputNames[at]];
    const source = effect?.kind === "view" ? inputs[inputNames.indexOf(effect.of)] : undefined;
    if (source === undefined || !source.contiguous || source.type !== type || !isKnownShape(shape)) return undefined;
    return factOfView(new View(type, shape, source.data, source.offset));
  });
  return facts.every((fact) => fact !== undefined) ? facts : undefined;
}

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
