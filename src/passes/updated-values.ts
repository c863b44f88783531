/** The values of a graph that some node updates: caches, mostly. Told by declarations; passes leave who reads them as it is. */
import type { Graph, Value } from "../graph/graph.js";

/** Values that a node declares an update of, and the values that those are views of. */
export function updatedValues(graph: Graph): Set<Value> {
  const updated = new Set<Value>();
  for (let last = graph.nodes.length - 1; last >= 0; last--) {
    const node = graph.nodes[last];
    for (const name in node.op.effects) {
      const effect = node.op.effects[name];
      if (effect.kind === "reuse") continue;
      const result = node.outputs[Object.keys(node.op.outputs).indexOf(name)];
      if (effect.kind === "view" && (result === undefined || !updated.has(result))) continue;
      const operand = node.inputs[Object.keys(node.op.inputs).indexOf(effect.of)];
      if (operand !== undefined) updated.add(operand);
    }
  }
  return updated;
}
