/**
 * x · sigmoid(αx) made one node.
 *
 *     x ─┬▶ Sigmoid ─┐                                  x ──▶ Swish ──▶ y
 *        ╰───────────┴▶ Mul ──▶ y                  ⇒
 *     x ─┬▶ Mul 1.702 ──▶ Sigmoid ─┐                    x ──▶ Swish α=1.702 ──▶ y
 *        ╰─────────────────────────┴▶ Mul ──▶ y
 */
import type { Graph } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { fitsAttribute, typeOf } from "./facts.js";
import { hole, op, type Pattern, product, scalar, either } from "./match.js";
import { float } from "../graph/attribute-values.js";
import { rewrite } from "./rewrite.js";

const x = hole();
const alpha = hole();
const argument: Pattern = either(product(x, scalar(Number.isFinite, alpha)), x);

/** The graph with Swish nodes for products with a sigmoid. */
export const fuseSwish = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: product(op("Sigmoid", [argument]), x),
    replace(match, edit, root) {
      const slope = match.number(alpha, 1);
      if (!fitsAttribute(slope, typeOf(root))) return false;
      edit.node("Swish", [match.value(x)], { attributes: { alpha: float(slope) }, outputs: [root] });
      return true;
    },
  });
