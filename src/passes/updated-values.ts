/** The values of a graph that some node updates: caches, mostly. Told by declarations; passes leave who reads them as it is. */
import type { Graph, Value } from "../graph/graph.js";

/** Values that a node declares an update of, and the values that those are views of. */
export function updatedValues(graph: Graph): Set<Value> {
  const updated = new Set<Value>();
  for (const node of graph.nodes.toReversed()) {
    const inputs = Object.keys(node.op.inputs);
    Object.keys(node.op.outputs).forEach((name, at) => {
      const effect = node.op.effects[name];
      const result = node.outputs[at];
      const shows = effect?.kind === "view" && result !== undefined && updated.has(result);
      if (effect?.kind !== "update" && !shows) return;
      const operand = node.inputs[inputs.indexOf(effect.of)];
      if (operand !== undefined) updated.add(operand);
    });
  }
  return updated;
}
