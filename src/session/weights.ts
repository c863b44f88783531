/** The weights of a graph: what a session counts, and what results must not lie in. */
import type { Graph, Value } from "../graph/graph.js";
import type { View } from "../tensor/view.js";

/** Every initializer of the graph and of the graphs inside it. */
export const weightsOf = (graph: Graph): View[] => [...namedWeightsOf(graph).keys()];

/** Those with the name of a value that has each. */
export function namedWeightsOf(graph: Graph): ReadonlyMap<View, string> {
  const weights = new Map<View, string>();
  const add = (value: Value | undefined): void => {
    if (value?.initializer !== undefined && !weights.has(value.initializer)) weights.set(value.initializer, value.name);
  };
  const visit = (inner: Graph): void => {
    for (const value of [...inner.inputs, ...inner.outputs]) add(value);
    for (const node of inner.nodes) {
      node.inputs.forEach(add);
      for (const body of node.bodies.values()) visit(body);
    }
  };
  visit(graph);
  return weights;
}
