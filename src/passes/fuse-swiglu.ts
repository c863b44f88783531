/**
 * The gate of a feed-forward block made one node.
 *
 *     gate ──▶ Swish ─┐                          gate, up ──▶ SwiGLU ──▶ y
 *     up ─────────────┴▶ Mul ──▶ y         ⇒
 *
 * SwiGLU broadcasts nothing: both must have one shape.
 */
import type { Graph } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { haveSameShape } from "./facts.js";
import { bound, hole, op, product } from "./match.js";
import { float } from "../graph/attribute-values.js";
import { rewrite } from "./rewrite.js";

const gate = hole();
const up = hole();
const swish = hole();

/** The graph with SwiGLU nodes for products with a Swish. */
export const fuseSwiglu = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: product(bound(swish, op("Swish", [gate])), up),
    replace(match, edit, root) {
      if (!haveSameShape(match.value(gate), match.value(up))) return false;
      const alpha = float(match.node(swish).attrs["alpha"] as number);
      edit.node("SwiGLU", [match.value(gate), match.value(up)], { attributes: { alpha }, outputs: [root] });
      return true;
    },
  });
