/** The weights of a graph: what a session counts, and what results must not lie in. */
import type { Graph, Value } from "../graph/graph.js";
import type { View } from "../tensor/view.js";

/** Bytes of a graph's weights: those that several show in other shapes count once. */
export const weightBytesOf = (graph: Graph): number => heldBytes(namedWeightsOf(graph).keys());

/** Bytes that views hold together. */
export function heldBytes(views: Iterable<View>): number {
  const held = new Map<View["buffer"], number>();
  for (const { buffer, byteLength } of views) held.set(buffer, Math.max(held.get(buffer) ?? 0, byteLength));
  return [...held.values()].reduce((sum, bytes) => sum + bytes, 0);
}

/** Every initializer of the graph and of the graphs inside it, with the name of a value that has it. */
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
