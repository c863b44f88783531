/**
 * Constants folded away.
 *
 *     shape = Constant()                 x ──▶ Reshape ──▶ y
 *     x, shape ──▶ Reshape ──▶ y    ⇒    shape: initializer
 *
 * Inference already computed the small constant nodes; this pass turns their outputs into initializers and drops the nodes.
 * Bodies of If, Loop and Scan keep their nodes, but read folded values of the graphs around them.
 */
import type { Graph, Node, Value } from "../graph/graph.js";

/** The graph without the nodes whose outputs inference knows. */
export function foldConstants(graph: Graph): Graph {
  const folded = new Map<Value, Value>();
  const kept: Node[] = [];
  for (const node of graph.nodes) {
    const outputs = node.outputs.filter((value) => value !== undefined);
    if (node.bodies.size === 0 && outputs.length > 0 && outputs.every((value) => value.fact?.constant !== undefined)) {
      for (const value of outputs) folded.set(value, { ...value, initializer: value.fact!.constant });
    } else kept.push(node);
  }
  return folded.size === 0 ? graph : replaceValues({ ...graph, nodes: kept }, folded);
}

/** The graph, and the graphs inside it, reading other values. */
export function replaceValues(graph: Graph, replacements: ReadonlyMap<Value, Value>): Graph {
  const replace = (value: Value): Value => replacements.get(value) ?? value;
  return {
    ...graph,
    outputs: graph.outputs.map(replace),
    captured: graph.captured.map(replace),
    nodes: graph.nodes.map((node) => ({
      ...node,
      inputs: node.inputs.map((value) => value && replace(value)),
      bodies: new Map([...node.bodies].map(([name, body]) => [name, replaceValues(body, replacements)])),
    })),
  };
}
