/**
 * The two writes of a layer, made one node.
 *
 *     key ──▶ TensorScatter past_key ──▶ present_key             key, value ──▶ PairedTensorScatter ─┬▶ present_key
 *     value ▶ TensorScatter past_value ▶ present_value     ⇒     past_key, past_value                ╰▶ present_value
 *
 * Both write rows of one shape into caches of one shape at the same indices, and neither needs what the other makes. Nobody but its write reads
 * a past: readers of a cache that is updated stay where they are. PairedTensorScatter is insitu's own: only for backends that have a kernel for it.
 */
import { int, string } from "../graph/attribute-values.js";
import { type Graph, type Node, readsOf } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { axisOf, haveSameShape, shapeOf, typeOf } from "./facts.js";
import { GraphIndex } from "./graph-index.js";
import { op } from "./match.js";
import { rewrite } from "./rewrite.js";

/** The graph with writes in pairs. */
export function pairScatters(graph: Graph, operators: OperatorSet): Graph {
  const partners = partnersOf(graph);
  if (partners.size === 0) return graph;
  return rewrite(graph, operators, {
    pattern: op("TensorScatter", [], { more: true }),
    replace(match, edit, root) {
      const second = edit.producerOf(root);
      const first = second && partners.get(second);
      if (first === undefined || second === undefined) return false;
      const [pastKey, key, indices] = first.inputs;
      const [pastValue, value] = second.inputs;
      edit.node("PairedTensorScatter", [pastKey, pastValue, key, value, indices], {
        domain: "insitu",
        attributes: { axis: int(second.attrs["axis"] as number), mode: string(second.attrs["mode"] as string) },
        outputs: [first.outputs[0], root],
      });
      return true;
    },
  });
}

/** Writes that are the second of a pair, with the first. */
function partnersOf(graph: Graph): ReadonlyMap<Node, Node> {
  const index = new GraphIndex(graph);
  const partners = new Map<Node, Node>();
  let first: Node | undefined;
  for (const node of graph.nodes) {
    if (node.op.domain !== "" || node.op.name !== "TensorScatter" || index.readersOf(node.inputs[0]!).size > 1)
      continue;
    if (first === undefined || !areAlike(first, node) || index.needs(readsOf(node), new Set(first.outputs))) {
      first = node;
      continue;
    }
    partners.set(node, first);
    first = undefined;
  }
  return partners;
}

/** True if both write rows in the same way, of one shape, into caches of one shape. */
function areAlike(one: Node, other: Node): boolean {
  const [past, rows, indices] = one.inputs;
  const rank = shapeOf(past)?.length;
  if (rank === undefined || indices !== other.inputs[2] || past === other.inputs[0]) return false;
  const [axis, otherAxis] = [one, other].map(({ attrs }) => axisOf(attrs["axis"] as number, rank));
  return (
    axis === otherAxis &&
    one.attrs["mode"] === other.attrs["mode"] &&
    typeOf(past) === typeOf(other.inputs[0]) &&
    haveSameShape(past, other.inputs[0]) &&
    haveSameShape(rows, other.inputs[1])
  );
}
