/**
 * Facts for every value of a graph: types, shapes over symbols, and contents where they are known. Small nodes whose operands
 * are all constant are computed on the way, since their contents decide shapes further on.
 */
import { InsituError } from "../base/error.js";
import { mostFoldedElements, mostTermsWorkedOn } from "../base/limits.js";
import { absentView } from "../tensor/deferred.js";
import { View } from "../tensor/view.js";
import { callReference, inferOutputs, workOf } from "./call.js";
import { isFresh, isKnownShape, type Shape, withTermAllowance } from "./dim.js";
import { type Fact, factOfView, knownSize, knownView, sameFact } from "./fact.js";
import { fixedShapes } from "./fixed-sizes.js";
import { type Graph, type Node, readsOf, type Value } from "./graph.js";
import { type Expense, Inference } from "./inference.js";

/** What facts are kept in while a graph, or one run of a body, is looked at. */
export type Facts = Map<Value, Fact>;

/** What was inferred of a graph for one run. */
export interface Inferred {
  readonly facts: Facts;
  /** What each of the graph's nodes took, in their order. */
  readonly expenses: readonly Expense[];
  /** The values whose facts are others than in the inference that this one follows; undefined where it follows none. */
  readonly changed: ReadonlySet<Value> | undefined;
}

/** Does what infers a graph, within what its size allows. */
function inferring<T>(graph: Graph, believeDeclared: boolean, work: (inference: Inference) => T): T {
  const nodes = countNodes(graph);
  return withTermAllowance(mostTermsWorkedOn(nodes), () => work(new Inference(nodes, believeDeclared)));
}

/** The nodes of a graph and of the graphs inside it. */
function countNodes(graph: Graph): number {
  let count = graph.nodes.length;
  for (const { bodies } of graph.nodes)
    if (bodies.size > 0) for (const body of bodies.values()) count += countNodes(body);
  return count;
}

/** Infers a main graph from its declared inputs, and from the sizes of them that its operators fix, and stores each fact in its value. */
export function inferGraph(graph: Graph): void {
  const facts: Facts = new Map();
  const inputs = graph.inputs.map((value): Fact => {
    const type = value.declared?.type ?? value.initializer?.type;
    if (type === undefined)
      throw new InsituError("invalid-graph", `graph "${graph.name}": input "${value.name}" has no element type`);
    return { type, shape: value.declared?.shape };
  });
  inferring(graph, true, (inference) => infer(graph, inputs, facts, inference));
  const fixed = fixedShapes(graph, facts);
  if (fixed.size > 0) {
    const known = graph.inputs.map((value, at): Fact => ({
      ...inputs[at],
      shape: fixed.get(value) ?? inputs[at].shape,
    }));
    facts.clear();
    inferring(graph, true, (inference) => infer(graph, known, facts, inference));
  }
  for (const [value, fact] of facts) value.fact = fact;
}

/**
 * Infers a graph from facts about its inputs and from nothing that the file declares; `facts` already holds what enclosing graphs know,
 * and receives the rest.
 */
export const inferBody = (graph: Graph, inputs: readonly Fact[], facts: Facts): readonly Fact[] =>
  inferring(graph, false, (inference) => infer(graph, inputs, facts, inference));

/**
 * Infers a graph as `inferBody` does; what follows from the same facts as in an inference of the same graph `before` is taken over from it,
 * and what comes out alike is the same object.
 */
export function inferLike(graph: Graph, inputs: readonly Fact[], before?: Inferred): Inferred {
  const facts: Facts = new Map(before?.facts);
  const expenses: Expense[] = [];
  if (before === undefined) {
    inferring(graph, false, (inference) => {
      const factOf = begin(graph, inputs, facts, inference);
      for (const node of graph.nodes)
        expenses.push(inference.expenseOf(() => inferNode(node, factOf, facts, inference)));
    });
    return { facts, expenses, changed: undefined };
  }
  const changed = new Set<Value>();
  const compare = (value: Value): void => {
    const [known, found] = [before.facts.get(value), facts.get(value)];
    if (known !== undefined && found !== undefined && sameFact(known, found)) facts.set(value, known);
    else changed.add(value);
  };
  inferring(graph, false, (inference) => {
    const factOf = begin(graph, inputs, facts, inference);
    for (const value of graph.inputs) compare(value);
    graph.nodes.forEach((node, at) => {
      if (!dependsOn(node, changed) && inference.repeat(before.expenses[at])) {
        expenses.push(before.expenses[at]);
        return;
      }
      expenses.push(inference.expenseOf(() => inferNode(node, factOf, facts, inference)));
      for (const value of node.outputs) if (value !== undefined) compare(value);
    });
  });
  return { facts, expenses, changed };
}

/** True if a node, or a subgraph of it, reads one of the values. */
function dependsOn(node: Node, values: ReadonlySet<Value>): boolean {
  if (node.bodies.size > 0) return readsOf(node).some((value) => values.has(value));
  for (const value of node.inputs) if (value !== undefined && values.has(value)) return true;
  return false;
}

function infer(graph: Graph, inputs: readonly Fact[], facts: Facts, inference: Inference): readonly Fact[] {
  const factOf = begin(graph, inputs, facts, inference);
  for (const node of graph.nodes) inferNode(node, factOf, facts, inference);
  return graph.outputs.map(factOf);
}

/** Notes what is known of a graph's inputs; what it returns finds the fact of any value that was inferred, or that the model holds. */
function begin(graph: Graph, inputs: readonly Fact[], facts: Facts, inference: Inference): (value: Value) => Fact {
  if (inputs.length !== graph.inputs.length) {
    throw new InsituError(
      "invalid-graph",
      `graph "${graph.name}" takes ${graph.inputs.length} inputs, got ${inputs.length}`,
    );
  }
  graph.inputs.forEach((value, at) => facts.set(value, complete(inputs[at], value, inference)));
  return (value) => {
    const fact = facts.get(value);
    if (fact !== undefined) return fact;
    if (value.initializer === undefined) throw new InsituError("internal", `value "${value.name}" has no fact`);
    const constant = factOfView(value.initializer);
    facts.set(value, constant);
    return constant;
  };
}

function inferNode(node: Node, factOf: (value: Value) => Fact, facts: Facts, inference: Inference): void {
  inference.countRule(node);
  const operands = node.inputs.map((value) => value && factOf(value));
  const body = (attribute: string, given: readonly Fact[]): readonly Fact[] =>
    infer(bodyOf(node, attribute), given, facts, inference);
  const known = knownOperands(node, operands);
  // What is computed needs no rule for its contents.
  const folded =
    known && fold(node, operands, known, inferOutputs(node, operands, body, { contents: false }), inference);
  const results =
    folded ??
    (node.bodies.size > 0
      ? inferOutputs(node, operands, body)
      : inference.like.outputsOf(node, operands, (given) => inferOutputs(node, given, body)));
  node.outputs.forEach((value, at) => {
    if (value === undefined) return;
    const fact = folded?.[at] ?? complete(results[at], value, inference);
    const constant = fact.constant ?? knownView(fact);
    facts.set(value, constant === undefined ? fact : { ...fact, constant });
  });
}

/** The subgraph behind an attribute; throws where the node has none. */
export function bodyOf(node: Node, attribute: string): Graph {
  const body = node.bodies.get(attribute);
  if (body === undefined)
    throw new InsituError("invalid-graph", `${node.label}: attribute "${attribute}" must be a graph`);
  return body;
}

/** The contents of a node's operands, where all are known and its outputs follow from them alone. */
function knownOperands(node: Node, operands: readonly (Fact | undefined)[]): readonly (View | undefined)[] | undefined {
  if (node.op.random || node.bodies.size > 0) return undefined;
  const views: (View | undefined)[] = [];
  for (const operand of operands) {
    const view = operand && knownView(operand);
    if (operand !== undefined && view === undefined) return undefined;
    views.push(view);
  }
  return views;
}

/** The node's outputs as constants, where the work is small and there is work left. */
function fold(
  node: Node,
  operands: readonly (Fact | undefined)[],
  inputs: readonly (View | undefined)[],
  results: readonly Fact[],
  inference: Inference,
): Fact[] | undefined {
  // What is not on the host is large: it stays where it is.
  if (inputs.some((view) => view !== undefined && absentView(view))) return viewedConstants(node, inputs, results);
  let elements = 0;
  for (const view of inputs) elements += view?.size ?? 0;
  for (const result of results) {
    // A shape that data decide is at most as large as the operands in all operators that are worth folding.
    elements += isKnownShape(result.shape) ? knownSize(result)! : 0;
  }
  if (!(elements <= mostFoldedElements && inference.spend(elements))) return viewedConstants(node, inputs, results);
  const work = workOf(node, operands) + charactersOf(inputs);
  if (!inference.spend(work)) return viewedConstants(node, inputs, results);
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
    return factOfView(source.show(shape));
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
