/**
 * Runs a graph node by node with nothing decided beforehand: bodies of If, Loop and Scan, whose shapes may differ each time.
 * Functional: no operand is ever written.
 */
import { InsituError } from "../base/error.js";
import { callReference, inferOutputs } from "../graph/call.js";
import { isKnownShape } from "../graph/dim.js";
import { type Fact, factOfView } from "../graph/fact.js";
import type { Graph, Node, Value } from "../graph/graph.js";
import { bodyOf, inferBody } from "../graph/infer.js";
import { effectOf } from "../plan/uses.js";
import { View } from "../tensor/view.js";

/** Views by value, for one run of one graph and the graphs around it. */
export type Environment = Map<Value, View>;

/** Computes a graph's outputs; `around` holds the values it captures. */
export function runBody(graph: Graph, inputs: readonly View[], around: Environment): readonly View[] {
  if (inputs.length !== graph.inputs.length) {
    throw new InsituError(
      "invalid-graph",
      `graph "${graph.name}" takes ${graph.inputs.length} inputs, got ${inputs.length}`,
    );
  }
  const environment = capturedFrom(around, graph, (view) => view);
  graph.inputs.forEach((value, at) => environment.set(value, inputs[at]));
  const viewOf = (value: Value): View => {
    const view = environment.get(value) ?? value.initializer;
    if (view === undefined) throw new InsituError("internal", `value "${value.name}" was used before it was computed`);
    return view;
  };
  for (const node of graph.nodes) {
    const views = node.inputs.map((value) => value && viewOf(value));
    const outputs = runDynamically(node, views, environment);
    node.outputs.forEach((value, at) => {
      if (value !== undefined) environment.set(value, outputs[at]!);
    });
  }
  return graph.outputs.map(viewOf);
}

/** Infers a node from its operands' contents, allocates its outputs and runs it. */
export function runDynamically(
  node: Node,
  views: readonly (View | undefined)[],
  environment: Environment,
): readonly (View | undefined)[] {
  const operands = views.map((view) => view && factOfView(view));
  const facts = inferOutputs(node, operands, (attribute, given) => {
    const body = bodyOf(node, attribute);
    return inferBody(body, given, capturedFrom(environment, body, factOfView));
  });
  const outputs = facts.map((fact, at) =>
    node.wanted[at] && isKnownShape(fact.shape) ? place(node, at, fact, fact.shape, views) : undefined,
  );
  callReference(node, views, outputs, facts, (attribute, given) =>
    runBody(bodyOf(node, attribute), given, environment),
  );
  return outputs;
}

/** The output's bytes: the operand's own where the operator declares a view, else fresh ones. */
function place(
  node: Node,
  at: number,
  fact: Fact,
  shape: readonly number[],
  views: readonly (View | undefined)[],
): View {
  const effect = effectOf(node, at);
  if (effect?.kind === "view") {
    const source = views[node.inputs.indexOf(effect.sources[0])];
    if (source?.contiguous && source.type === fact.type) return source.reshape(shape);
  }
  return View.allocate(fact.type, shape);
}

/** What a body takes from around it, and nothing else: there may be far more. */
function capturedFrom<T>(around: Environment, { captured }: Graph, of: (view: View) => T): Map<Value, T> {
  const found = new Map<Value, T>();
  for (const value of captured) {
    const view = around.get(value);
    if (view !== undefined) found.set(value, of(view));
  }
  return found;
}
