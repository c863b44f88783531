/**
 * A residual's addition and the normalisation behind it, made one node that gives both.
 *
 *     x, y ──▶ Add ─┬─────────────────────────────▶ sum                x, y, weight ──▶ SkipSimplifiedLayerNormalization ─┬▶ sum
 *                   ╰▶ RMSNormalization weight ───▶ z             ⇒                                                       ╰▶ z
 *
 * LayerNormalization becomes SkipLayerNormalization likewise, in float32. Only where both summands have one shape and the weights are constants
 * over the last axis.
 */
import type { Graph } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { axisOf, haveSameShape, shapeOf, typeOf } from "./facts.js";
import { bound, either, hole, op, type Pattern, shared } from "./match.js";
import { float } from "../graph/attribute-values.js";
import { rewrite } from "./rewrite.js";

const [left, right, total, weight, bias] = [hole(), hole(), hole(), hole(), hole()];
// Others may read the sum: the new node makes it.
const added: Pattern = shared(bound(total, op("Add", [left, right])));

/** The graph with its residual additions taken into the normalisations behind them. */
export const fuseSkipNormalization = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: either(
      op("RMSNormalization", [added, weight]),
      op("LayerNormalization", [added, weight, bias]),
      op("LayerNormalization", [added, weight]),
    ),
    replace(match, edit, root) {
      const node = match.index.producerOf(root)!;
      const [input, skip, result] = [left, right, total].map((operand) => match.value(operand));
      const weights = [weight, bias].flatMap((operand) => match.find(operand) ?? []);
      const rank = shapeOf(result)?.length ?? 0;
      const spansLast = axisOf(node.attrs["axis"] as number, rank) === rank - 1;
      // Narrower types round the sum, and rows that hardly vary are then others: what is left is scaled up.
      if (node.op.name === "LayerNormalization" && typeOf(result) !== "float32") return false;
      if (!spansLast || !haveSameShape(input, skip) || !haveSameShape(input, result)) return false;
      if (weights.some((value) => value.fact?.constant === undefined || shapeOf(value)?.length !== 1)) return false;
      const name = node.op.name === "RMSNormalization" ? "SkipSimplifiedLayerNormalization" : "SkipLayerNormalization";
      edit.node(name, [input, skip, ...weights], {
        domain: "com.microsoft",
        attributes: { epsilon: float(node.attrs["epsilon"] as number) },
        outputs: [root, undefined, undefined, result],
      });
      return true;
    },
  });
