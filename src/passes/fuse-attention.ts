/**
 * Attention written out, made one node.
 *
 *     Q ────────────────┐            mask ─┐                                                Q, K, V, mask
 *     K ──▶ Transpose ──┴▶ MatMul ──▶ Mul ─┴▶ Add ──▶ Softmax ─┐                      ⇒         ╰─▶ Attention ──▶ Y
 *     V ───────────────────────────────────────────────────────┴▶ MatMul ──▶ Y
 *
 * The scale may be a Mul or a Div, of the scores or of Q and K before; a softcap may stand before the mask; Casts to float32 around
 * Softmax are its `softmax_precision`. A guard against NaN behind Softmax (sdpa's) is what Attention does by itself. Batch and heads may
 * be joined to one dimension meanwhile. A mask of 0 and −∞ chosen by booleans becomes those booleans. The results are the same wherever
 * the scores are numbers: what a guard makes of scores that are NaN themselves is not kept.
 */
import type { AttributeValue } from "../graph/attribute.js";
import type { Graph, Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { axisOf, fitsAttribute, numberOf, same, shapeOf, typeOf } from "./facts.js";
import {
  type Added,
  joined,
  maskOf,
  parted,
  type Scores,
  swapHeads,
  transposedJoinedKeys,
  transposedKeys,
} from "./attention-operands.js";
import { bound, either, hole, type Match, op, optional, type Pattern, scalar, unordered } from "./match.js";
import { widens } from "./remove-no-ops.js";
import { float, int } from "../graph/attribute-values.js";
import { type Edit, rewrite } from "./rewrite.js";

const [queries, keys, swappedKeys, values] = [hole(), hole(), hole(), hole()];
const [softmax, guard, capped, early, late, shown, low] = [hole(), hole(), hole(), hole(), hole(), hole(), hole()];
const [cap, capAgain] = [hole(), hole()];

/** A factor that may be there: what it multiplies by, or divides by. */
interface Factor {
  readonly times: Pattern;
  readonly over: Pattern;
}
const factor = (): Factor => ({ times: hole(), over: hole() });
const [ofScores, ofQueries, ofKeys] = [factor(), factor(), factor()];

const scaled = (pattern: Pattern, { times, over }: Factor): Pattern =>
  either(
    unordered("Mul", pattern, scalar(Number.isFinite, times)),
    op("Div", [pattern, scalar((number) => number !== 0, over)]),
  );
const maybeScaled = (pattern: Pattern, factors: Factor): Pattern => either(scaled(pattern, factors), pattern);

/** cap · tanh(scores / cap), where it is there. */
const softcapped = (pattern: Pattern): Pattern =>
  either(
    bound(
      capped,
      unordered(
        "Mul",
        op("Tanh", [op("Div", [pattern, scalar((number) => number > 0, cap)])]),
        scalar((number) => number > 0, capAgain),
      ),
    ),
    pattern,
  );

/** Scores with a mask added, or without. */
const masked = (pattern: Pattern, mask: Pattern): Pattern => either(unordered("Add", pattern, mask), pattern);

/** Scores that a condition sets to a number so low that adding it would do the same. */
const selected = (pattern: Pattern): Pattern =>
  either(op("Where", [shown, pattern, scalar((number) => number <= -1e30, low)]), pattern);

const atLast = (pattern: Pattern): Pattern =>
  op("Softmax", [pattern], {
    where: (node) => {
      const rank = shapeOf(node.inputs[0])?.length;
      return rank !== undefined && axisOf(node.attrs["axis"] as number, rank) === rank - 1;
    },
  });

/** Softmax's result, with NaN replaced by 0 where that is there. */
const guardedWeights = (scores: Pattern): Pattern => {
  const weights = bound(softmax, atLast(optional("Cast", scores)));
  const unspoilt = bound(guard, op("Where", [op("IsNaN", [weights]), scalar(0), softmax]));
  return optional("Cast", either(unspoilt, weights));
};

const products: Pattern = op("MatMul", [
  maybeScaled(queries, ofQueries),
  either(
    scaled(transposedKeys(keys, swappedKeys), ofKeys),
    transposedKeys(scaled(keys, ofKeys), scaled(swappedKeys, ofKeys)),
    transposedKeys(keys, swappedKeys),
  ),
]);
const separate: Pattern = op("MatMul", [
  guardedWeights(masked(selected(softcapped(maybeScaled(products, ofScores))), late)),
  values,
]);

const joinedProducts: Pattern = op("MatMul", [joined(queries), transposedJoinedKeys(keys)]);
const joinedScores: Pattern = masked(parted(masked(maybeScaled(joinedProducts, ofScores), early)), late);
const together: Pattern = parted(op("MatMul", [joined(guardedWeights(joinedScores)), joined(values)]));

/** The product of all factors in front of the scores. */
const scaleOf = (match: Match): number =>
  [ofScores, ofQueries, ofKeys].reduce(
    (scale, { times, over }) => (scale * match.number(times, 1)) / match.number(over, 1),
    1,
  );

/** The scores' dimensions; undefined unless the operands share them as Attention needs it. */
function scoresOf(q: Value, k: Value, v: Value): Scores | undefined {
  const [query, key, value] = [shapeOf(q), shapeOf(k), shapeOf(v)];
  if (query?.length !== 4 || key?.length !== 4 || value?.length !== 4) return undefined;
  const [batch, heads] = query;
  const shares = [key, value].every((shape) => same(shape[0], batch) && same(shape[1], key[1]));
  // MatMul repeats one head for all, as Attention does; other groups are no broadcast.
  if (!shares || !(same(key[1], heads) || key[1] === 1)) return undefined;
  // Values have as many rows as keys: the second product needs it.
  return { batch, heads, queries: query[2], keys: key[2] };
}

function replace(match: Match, edit: Edit, root: Value): boolean {
  const swapped = match.find(swappedKeys);
  const [q, v] = [match.value(queries), match.value(values)];
  const k = swapped === undefined ? match.value(keys) : swapHeads(swapped, edit);
  const scores = scoresOf(q, k, v);
  if (scores === undefined) return false;
  const isCapped = match.find(capped) !== undefined;
  if (isCapped && match.number(cap) !== match.number(capAgain)) return false;
  const added: Added[] = [];
  for (const [mask, isJoined] of [
    [match.find(early), true],
    [match.find(late), false],
  ] as const)
    if (mask !== undefined) added.push({ value: mask, joined: isJoined });
  const condition = match.find(shown);
  if (condition !== undefined) {
    // Narrower types would round a sum with so low a number in another way.
    if (typeOf(q) !== "float32") return false;
    const zero = edit.filled("float32", [], 0);
    added.push({ value: edit.node("Where", [condition, zero, match.value(low)]), joined: false });
  }
  const mask = maskOf(added, scores, match.find(guard) !== undefined, edit);
  if (mask === "unfit") return false;
  const type = typeOf(match.value(softmax));
  if (type !== typeOf(q) && !widens(typeOf(q), type)) return false;
  if (![scaleOf(match), match.number(cap, 0)].every((number) => fitsAttribute(number, type))) return false;
  const attributes: Record<string, AttributeValue> = { scale: float(scaleOf(match)) };
  if (isCapped) attributes["softcap"] = float(numberOf(match.value(cap))!);
  if (type !== typeOf(q)) attributes["softmax_precision"] = int(type === "float64" ? 11 : 1);
  edit.node("Attention", mask === undefined ? [q, k, v] : [q, k, v, mask], {
    opset: 24,
    attributes,
    outputs: [root],
  });
  return true;
}

/** The graph with its written-out attentions as nodes. */
export const fuseAttention = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, { pattern: either(separate, together), replace });
