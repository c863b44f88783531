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
import type { GraphIndex } from "./graph-index.js";
import { bound, either, hole, Match, op, optional, type Pattern, scalar, unordered } from "./match.js";
import { widens } from "./remove-no-ops.js";
import { float, int } from "../graph/attribute-values.js";
import { type Edit, rewrite } from "./rewrite.js";
import { takeApart, type WrittenScores } from "./written-scores.js";

const [queries, keys, swappedKeys, values] = [hole(), hole(), hole(), hole()];
const [entering, softmax, guard] = [hole(), hole(), hole()];

/** A factor that may be there: what it multiplies by, or divides by. */
interface Factor {
  readonly times: Pattern;
  readonly over: Pattern;
}
const factor = (): Factor => ({ times: hole(), over: hole() });
const [ofQueries, ofKeys] = [factor(), factor()];

const scaled = (pattern: Pattern, { times, over }: Factor): Pattern =>
  either(
    unordered("Mul", pattern, scalar(Number.isFinite, times)),
    op("Div", [pattern, scalar((number) => number !== 0, over)]),
  );
const maybeScaled = (pattern: Pattern, factors: Factor): Pattern => either(scaled(pattern, factors), pattern);

const atLast = (pattern: Pattern): Pattern =>
  op("Softmax", [pattern], {
    where: (node) => {
      const rank = shapeOf(node.inputs[0])?.length;
      return rank !== undefined && axisOf(node.attrs["axis"] as number, rank) === rank - 1;
    },
  });

const products: Pattern = either(
  op("MatMul", [
    maybeScaled(queries, ofQueries),
    either(
      scaled(transposedKeys(keys, swappedKeys), ofKeys),
      transposedKeys(scaled(keys, ofKeys), scaled(swappedKeys, ofKeys)),
      transposedKeys(keys, swappedKeys),
    ),
  ]),
  op("MatMul", [joined(queries), transposedJoinedKeys(keys)]),
);

const partedScores: Pattern = parted(hole());

/** What may make scores: values that are sums, products and choices, and those whose batch and heads are taken apart. */
const steps = new Set(["Add", "Mul", "Div", "Tanh", "Where"]);

/** Scores taken apart as the graph has them; undefined where they are not written as Attention computes them. */
function scoresIn(value: Value, index: GraphIndex): WrittenScores<Value> | undefined {
  const nothing = Match.at(index);
  const fits = (pattern: Pattern, at: Value): boolean => !pattern(at, nothing)[Symbol.iterator]().next().done;
  const found = takeApart<Value>(value, {
    callOf(term) {
      const node = index.producerOf(term);
      return node === undefined || node.op.domain !== "" || !steps.has(node.op.name)
        ? undefined
        : { name: node.op.name, label: node.label, of: node.inputs as readonly Value[] };
    },
    behindLayout: (term) => (fits(partedScores, term) ? index.producerOf(term)!.inputs[0] : undefined),
    numberOf,
    isProduct: (term) => fits(products, term),
    hides: (number) => number <= -1e30,
  });
  if (typeof found === "string") return undefined;
  // A mask that has more dimensions than the scores would add some to them.
  const ranks = [...found.path, found.product].map((term) => shapeOf(term)?.length);
  const broadens = found.path.some(
    (term, at) => ranks[at] !== ranks[at + 1] && index.producerOf(term)!.op.name !== "Reshape",
  );
  // A condition comes first: behind a sum with −∞, its low number would count.
  const isExact = found.softcap === found.over && found.masks.slice(1).every(({ kind }) => kind === "added");
  return isExact && !broadens && ranks[0] !== undefined ? found : undefined;
}

/** Scores that a Softmax reads, with their masks as operands. */
const written: Pattern = function* (value, match) {
  const found = scoresIn(value, match.index);
  if (found === undefined) return;
  let on = match.fill(entering, value, true)!;
  for (const masking of found.masks)
    on = on.fill(hole(), masking.kind === "added" ? masking.mask : masking.when, false)!;
  for (const term of found.path) on = on.with(match.index.producerOf(term)!);
  yield* products(found.product, on);
};

/** Softmax's result, with NaN replaced by 0 where that is there. */
const guardedWeights = (): Pattern => {
  const weights = bound(softmax, atLast(optional("Cast", written)));
  const unspoilt = bound(guard, op("Where", [op("IsNaN", [weights]), scalar(0), softmax]));
  return optional("Cast", either(unspoilt, weights));
};

const separate: Pattern = op("MatMul", [guardedWeights(), values]);
const together: Pattern = parted(op("MatMul", [joined(guardedWeights()), joined(values)]));

/** The product of the factors in front of queries and keys. */
const scaleOf = (match: Match): number =>
  [ofQueries, ofKeys].reduce((scale, { times, over }) => (scale * match.number(times, 1)) / match.number(over, 1), 1);

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
  const { scale: own, softcap, masks } = scoresIn(match.value(entering), match.index)!;
  const scale = scaleOf(match) * own;
  const added: Added[] = [];
  for (const masking of masks) {
    const joined = shapeOf(masking.at)!.length < 4;
    if (masking.kind === "added") {
      added.push({ value: masking.mask, joined });
      continue;
    }
    // Narrower types would round a sum with so low a number in another way.
    if (typeOf(q) !== "float32") return false;
    const [zero, { when, keeps, low }] = [edit.filled("float32", [], 0), masking];
    added.push({ value: edit.node("Where", keeps ? [when, zero, low] : [when, low, zero]), joined });
  }
  const mask = maskOf(added, scores, match.find(guard) !== undefined, edit);
  if (mask === "unfit") return false;
  const type = typeOf(match.value(softmax));
  if (type !== typeOf(q) && !widens(typeOf(q), type)) return false;
  if (![scale, softcap].every((number) => Number.isFinite(number) && fitsAttribute(number, type))) return false;
  const attributes: Record<string, AttributeValue> = { scale: float(scale) };
  if (softcap !== 0) attributes["softcap"] = float(softcap);
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
