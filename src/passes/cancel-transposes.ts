/**
 * Two Transposes in a row, made one.
 *
 *     x ──▶ Transpose [0,2,1] ──▶ Transpose [0,2,1] ──▶ y        ⇒    x ──▶ y
 *     x ──▶ Transpose [0,2,1] ──▶ Transpose [1,0,2] ──▶ y        ⇒    x ──▶ Transpose [2,0,1] ──▶ y
 *
 * Where they cancel, an Identity is left that `remove-no-ops` takes out unless it makes a graph output.
 */
import type { Graph } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { orderOf, shapeOf } from "./facts.js";
import { hole, op, bound } from "./match.js";
import { ints } from "../graph/attribute-values.js";
import { rewrite } from "./rewrite.js";

const x = hole();
const inner = hole();

/** The graph without pairs of Transposes. */
export const cancelTransposes = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: op("Transpose", [bound(inner, op("Transpose", [x]))]),
    // An inner result that others read stays for them.
    keepsInner: true,
    replace(match, edit, root) {
      const rank = shapeOf(match.value(x))?.length;
      const outer = match.index.producerOf(root);
      if (rank === undefined || outer === undefined) return false;
      const first = orderOf(match.node(inner), rank);
      const order = orderOf(outer, rank).map((axis) => first[axis]);
      if (order.every((axis, at) => axis === at)) edit.node("Identity", [match.value(x)], { outputs: [root] });
      else edit.node("Transpose", [match.value(x)], { attributes: { perm: ints(order) }, outputs: [root] });
      return true;
    },
  });
