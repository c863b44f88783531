/**
 * Gelu written out, by the error function or by tanh, made one node.
 *
 *     x ─┬▶ Div √2 ──▶ Erf ──▶ Add 1 ──▶ Mul ½ ─┐                                    x ──▶ Gelu ──▶ y
 *        ╰──────────────────────────────────────┴▶ Mul ──▶ y                  ⇒
 *     x ─┬▶ Pow 3 ──▶ Mul 0.044715 ─┐
 *        ├──────────────────────────┴▶ Add ──▶ Mul √(2/π) ──▶ Tanh ──▶ Add 1 ─┐
 *        ╰──▶ Mul ½ ──────────────────────────────────────────────────────────┴▶ Mul ──▶ y      x ──▶ Gelu approximate="tanh" ──▶ y
 *
 * Factors may stand in any order and grouping, and the cube may be taken apart.
 */
import type { Graph } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { either, hole, op, type Pattern, product, scalar, sum } from "./match.js";
import { string } from "../graph/attribute-values.js";
import { rewrite } from "./rewrite.js";

const x = hole();
const root = Math.sqrt(2 / Math.PI);
const cubic = 0.044715;

const halved = (other: Pattern): Pattern =>
  either(product(other, x, scalar(0.5)), op("Div", [product(other, x), scalar(2)]));

const erf: Pattern = op("Erf", [either(op("Div", [x, scalar(Math.SQRT2)]), product(x, scalar(Math.SQRT1_2)))]);

const cube: Pattern = either(product(op("Pow", [x, scalar(3)]), scalar(cubic)), product(scalar(cubic), x, x, x));
const square: Pattern = either(product(op("Pow", [x, scalar(2)]), scalar(cubic)), product(scalar(cubic), x, x));
const angle: Pattern = either(
  product(sum(cube, x), scalar(root)), // √(2/π)·(x + 0.044715·x³)
  product(sum(square, scalar(1)), x, scalar(root)), // √(2/π)·x·(1 + 0.044715·x²)
);

const byError: Pattern = halved(sum(erf, scalar(1)));
const byTanh: Pattern = halved(sum(op("Tanh", [angle]), scalar(1)));

const fuse = (graph: Graph, operators: OperatorSet, pattern: Pattern, approximate: string): Graph =>
  rewrite(graph, operators, {
    pattern,
    replace(match, edit, result) {
      edit.node("Gelu", [match.value(x)], { attributes: { approximate: string(approximate) }, outputs: [result] });
      return true;
    },
  });

/** The graph with its written-out Gelus as nodes. */
export const fuseGelu = (graph: Graph, operators: OperatorSet): Graph =>
  fuse(fuse(graph, operators, byError, "none"), operators, byTanh, "tanh");
