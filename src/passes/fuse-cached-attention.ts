/**
 * The write of a step's rows into the caches, the attention over them and what is done to the rows before, made one node.
 *
 *     q ──▶ [norm of heads] ──▶ [RotaryEmbedding] ──────────────────────────────────────┐
 *     k ──▶ [norm of heads] ──▶ [RotaryEmbedding] ──▶ TensorScatter past_key ───────────┤
 *     v ────────────────────────────────────────────▶ TensorScatter past_value ─────────┴▶ Attention nonpad_kv_seqlen ──▶ y
 *                                                                                   ⇒   q, k, v, caches, … ──▶ CachedAttention ──▶ y
 *
 * Rows have heads side by side; caches likewise, or with heads in front and a Transpose around the attention. Where q, k and v are Projections of one
 * value, they become one as well, which CachedAttention reads as a whole. CachedAttention is insitu's own: only for backends that have a
 * kernel for it.
 */
import { isKnown } from "../graph/dim.js";
import type { Graph, Node, Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { axisOf, same, shapeOf } from "./facts.js";
import { headsApart, headsTogether, swapped } from "./heads.js";
import { bound, either, hole, type Match, op, type Pattern, shared } from "./match.js";
import { int, string } from "../graph/attribute-values.js";
import { type Edit, rewrite } from "./rewrite.js";
import {
  areAlike,
  attentionAttributes,
  isSideBySide,
  type Preparation,
  preparationOf,
  scaled,
  side,
  turnedHeads,
  turnedRows,
  withOneProduct,
} from "./turned-heads.js";

const own = { domain: "insitu" } as const;
const more = { more: true } as const;

const [queries, keys] = [side(), side()];
const [values, pastKey, pastValue, keyWrite, valueWrite, attention] = Array.from({ length: 6 }, hole);

// The presents may be read by anyone: the new node makes them.
const written = (as: Pattern, past: Pattern, fresh: Pattern): Pattern =>
  shared(bound(as, op("TensorScatter", [past, fresh], more)));

const attended = (query: Pattern, key: Pattern, value: Pattern): Pattern =>
  bound(
    attention,
    op("Attention", [query, written(keyWrite, pastKey, key), written(valueWrite, pastValue, value)], more),
  );

const factor = hole();
const packed: Pattern = attended(scaled(turnedRows(queries), factor), turnedRows(keys), values);
const inFront: Pattern = headsTogether(
  swapped(attended(scaled(turnedHeads(queries), factor), turnedHeads(keys), swapped(headsApart(values)))),
);

const sources = (match: Match): Record<"queries" | "keys" | "values", Value> => ({
  queries: match.value(queries.source),
  keys: match.value(keys.source),
  values: match.value(values),
});

/** Attentions with their writes. */
const withCaches = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: either(inFront, packed),
    replace(match, edit, root) {
      const node = match.node(attention);
      const writes = [match.node(keyWrite), match.node(valueWrite)];
      const cache = shapeOf(match.value(pastKey));
      const [rank, axis] = [cache?.length, cache?.length === 4 ? 2 : 1];
      if (cache === undefined || shapeOf(match.value(pastValue))?.length !== rank || (rank !== 4 && rank !== 3))
        return false;
      // One cache for keys and values alike is written once: no node of two writes stands for that.
      if (writes[0] === writes[1]) return false;
      const isFront = rank === 4;
      if (isFront === (match.value(attention) === root)) return false;
      const [heads, keyHeads] = isFront
        ? [shapeOf(match.value(attention))?.[1], cache[1]]
        : [node.attrs["q_num_heads"] as number | undefined, node.attrs["kv_num_heads"] as number | undefined];
      const width = cache.at(-1)!;
      if (heads === undefined || keyHeads === undefined || !isKnown(heads) || !isKnown(keyHeads) || !isKnown(width))
        return false;
      const size = isFront ? width : width / keyHeads;
      if (!same(shapeOf(match.value(pastValue))!.at(-1), width) || !isSideBySide(sources(match), heads, keyHeads, size))
        return false;
      if (writes.some((write) => axisOf(write.attrs["axis"] as number, rank) !== axis)) return false;
      if (writes[0].inputs[2] !== writes[1].inputs[2] || writes[0].attrs["mode"] !== writes[1].attrs["mode"])
        return false;
      if (!isPlainAttention(node)) return false;
      const rows = [node.inputs[0], writes[0].inputs[1], writes[1].inputs[1]];
      const counts = [heads, keyHeads, keyHeads];
      if (!rows.every((each, at) => isCutInto(each, counts[at], size, isFront))) return false;
      const q = preparationOf(match, queries, heads, size);
      const k = preparationOf(match, keys, keyHeads, size);
      if (q === undefined || k === undefined || !areAlike(q, k)) return false;
      makeNode(match, edit, root, { heads, keyHeads, size, axis, q, k });
      return true;
    },
  });

/** True if rows have so many heads of a size, in front or side by side. */
function isCutInto(rows: Value | undefined, heads: number, size: number, isFront: boolean): boolean {
  const shape = shapeOf(rows);
  return isFront ? shape?.length === 4 && shape[1] === heads && shape[3] === size : shape?.[2] === heads * size;
}

/** True if nothing is asked of the attention but its result over the caches as they are told to be filled. */
function isPlainAttention({ inputs, outputs, attrs }: Node): boolean {
  const [mask, past, pastOther, lengths] = inputs.slice(3);
  const precision = attrs["softmax_precision"];
  return (
    lengths !== undefined &&
    [mask, past, pastOther].every((value) => value === undefined) &&
    outputs.slice(1).every((value) => value === undefined) &&
    (precision === undefined || precision === "float32")
  );
}

function makeNode(
  match: Match,
  edit: Edit,
  root: Value,
  found: {
    readonly heads: number;
    readonly keyHeads: number;
    readonly size: number;
    readonly axis: number;
    readonly q: Preparation;
    readonly k: Preparation;
  },
): void {
  const { axis, q, k } = found;
  const { inputs } = match.node(attention);
  const [writeKey, writeValue] = [match.node(keyWrite), match.node(valueWrite)];
  const [cos, sin, positions] = q.turn?.operands ?? [];
  edit.node(
    "CachedAttention",
    [
      ...[queries.source, keys.source, values, pastKey, pastValue].map((from) => match.value(from)),
      writeKey.inputs[2],
      inputs[6],
      cos,
      sin,
      positions,
      q.norm?.scale,
      k.norm?.scale,
    ],
    {
      ...own,
      attributes: {
        ...attentionAttributes(match.node(attention), found, match.number(factor, 1)),
        axis: int(axis),
        mode: string(writeKey.attrs["mode"] as string),
      },
      outputs: [root, writeKey.outputs[0], writeValue.outputs[0]],
    },
  );
}

/** The graph with attentions that write their caches. */
export const fuseCachedAttention = (graph: Graph, operators: OperatorSet): Graph =>
  withOneProduct(withCaches(graph, operators), operators, "CachedAttention");
