/**
 * RMSNormalization written out, made one node.
 *
 *     x ──▶ Pow 2 ──▶ ReduceMean ──▶ Add ε ──▶ Sqrt ──▶ Reciprocal ──▶ Mul ──▶ Mul ──▶ y       x, weight ──▶ RMSNormalization ──▶ y
 *      ╰────────────────────────────────────────────────────────────────┘       │          ⇒
 *                                                                     weight ───┘
 *
 * The square may be a product, the inverse root a Div or a Pow; Casts to float32 before and back behind are the operator's own
 * `stash_type`. Without a weight, one of ones is put in.
 */
import type { Graph } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { fitsAttribute, typeOf } from "./facts.js";
import { either, hole, type Pattern } from "./match.js";
import { normalizedOf, onesFor, overRoot, square, weighted } from "./normalization.js";
import { float, int } from "../graph/attribute-values.js";
import { rewrite } from "./rewrite.js";

const x = hole();
const weight = hole();
const reduced = hole();
const epsilon = hole();

const normalized: Pattern = overRoot(x, square(x), reduced, epsilon);

/** The graph with its written-out RMS normalisations as nodes. */
export const fuseRmsNormalization = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: either(weighted(normalized, weight), normalized),
    replace(match, edit, root) {
      const given = match.find(weight);
      const found = normalizedOf(match, x, reduced, given === undefined ? [] : [given]);
      const scale = found && (given ?? onesFor(match.value(x), found.axis, edit));
      if (scale === undefined || !fitsAttribute(match.number(epsilon), typeOf(match.value(x)))) return false;
      edit.node("RMSNormalization", [found!.source, scale], {
        attributes: {
          axis: int(found!.axis),
          epsilon: float(match.number(epsilon)),
          stash_type: int(typeOf(match.value(x)) === "float64" ? 11 : 1),
        },
        outputs: [root],
      });
      return true;
    },
  });
