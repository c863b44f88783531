/**
 * Nodes whose results nobody needs, removed.
 *
 *     x ──▶ Relu ──▶ y (output)              x ──▶ Relu ──▶ y (output)
 *      ╰──▶ Neg ──▶ z (read by nobody)   ⇒
 *
 * A dead reader would otherwise stand in the way of an update in place.
 */
import { type Graph, type Node, readsOf, type Value } from "../graph/graph.js";

/** The graph with only the nodes that its outputs depend on. */
export function removeDeadNodes(graph: Graph): Graph {
  const needed = new Set<Value>(graph.outputs);
  const kept: Node[] = [];
  for (let last = graph.nodes.length - 1; last >= 0; last--) {
    const node = graph.nodes[last];
    if (!node.outputs.some((value) => value !== undefined && needed.has(value))) continue;
    for (const value of readsOf(node)) needed.add(value);
    kept.push(node);
  }
  return kept.length === graph.nodes.length ? graph : { ...graph, nodes: kept.toReversed() };
}
