/**
 * LayerNormalization written out, made one node.
 *
 *     x ─┬▶ ReduceMean ─┐                                                                         x, weight, bias
 *        ╰──────────────┴▶ Sub ─┬▶ Pow 2 ──▶ ReduceMean ──▶ Add ε ──▶ Sqrt ─┐              ⇒            │
 *                               ╰───────────────────────────────────────────┴▶ Div ──▶ Mul ──▶ Add      ╰─▶ LayerNormalization ──▶ y
 *                                                                                 weight ──┘  bias ──┘
 *
 * The square may be a product, the division a Reciprocal or a Pow; the bias may be missing, and the weight too. Casts to float32 before
 * and back behind are taken in where operand and weight have one type.
 */
import type { Graph, Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { typeOf } from "./facts.js";
import { bound, either, hole, op, type Pattern, sum } from "./match.js";
import { mean, meanAxis, normalizedOf, onesFor, overRoot, square, weighted } from "./normalization.js";
import { float, int } from "../graph/attribute-values.js";
import { rewrite } from "./rewrite.js";

const x = hole();
const weight = hole();
const bias = hole();
const center = hole();
const reduced = hole();
const epsilon = hole();

const deviation: Pattern = op("Sub", [x, bound(center, mean(x))]);
const normalized: Pattern = overRoot(deviation, square(deviation), reduced, epsilon);
const scaled: Pattern = weighted(normalized, weight);

/** The graph with its written-out layer normalisations as nodes. */
export const fuseLayerNormalization = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: either(sum(scaled, bias), scaled, normalized),
    replace(match, edit, root) {
      const [scale, shift] = [match.find(weight), match.find(bias)];
      const found = normalizedOf(
        match,
        x,
        reduced,
        [scale, shift].filter((value) => value !== undefined),
      );
      const wide = match.value(x);
      if (found === undefined || meanAxis(match.node(center)) !== found.axis || typeOf(wide) !== "float32")
        return false;
      // All operands have one type: a Cast before stays unless the weight is of the narrow type as well.
      const source: Value = scale !== undefined && typeOf(scale) === typeOf(found.source) ? found.source : wide;
      const gamma = scale ?? onesFor(source, found.axis, edit);
      if (gamma === undefined) return false;
      edit.node("LayerNormalization", shift === undefined ? [source, gamma] : [source, gamma, shift], {
        opset: 17,
        attributes: { axis: int(found.axis), epsilon: float(match.number(epsilon)), stash_type: int(1) },
        outputs: [root],
      });
      return true;
    },
  });
