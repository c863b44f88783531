/**
 * The write of a step's rows into the caches, the attention over them and what is done to the rows before, made one node.
 *
 *     q ──▶ [norm of heads] ──▶ [RotaryEmbedding] ──────────────────────────────────────┐
 *     k ──▶ [norm of heads] ──▶ [RotaryEmbedding] ──▶ TensorScatter past_key ───────────┤
 *     v ────────────────────────────────────────────▶ TensorScatter past_value ─────────┴▶ Attention nonpad_kv_seqlen ──▶ y
 *                                                                                   ⇒   q, k, v, caches, … ──▶ CachedAttention ──▶ y
 *
 * Likewise on pages, where k and v are reshaped to a list of tokens, one ScatterPaKvCache writes both to slot_mapping, and PagedAttention reads
 * them by block_tables and seq_lens. Rows have heads side by side; the attention reads and writes them so, or with heads in front and a Transpose
 * around it. Where q, k and v are Projections of one value, they become one as well, which CachedAttention reads as a whole. CachedAttention is
 * insitu's own: only for backends that have a kernel for it.
 */
import { int, string } from "../graph/attribute-values.js";
import type { AttributeValue } from "../graph/attribute.js";
import { isKnown } from "../graph/dim.js";
import type { Graph, Node, Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { axisOf, same, shapeOf, typeOf } from "./facts.js";
import { headsApart, headsTogether, reshaped, swapped } from "./heads.js";
import { bound, either, hole, type Match, op, type Pattern, shared } from "./match.js";
import { rewrite } from "./rewrite.js";
import {
  areAlike,
  attentionAttributes,
  isSideBySide,
  preparationOf,
  scaled,
  type Side,
  side,
  turnedHeads,
  turnedRows,
  withOneProduct,
  withWholeRows,
} from "./turned-heads.js";

const own = { domain: "insitu" } as const;
const more = { more: true } as const;

const [queries, keys] = [side(), side()];
const [values, pastKey, pastValue, keyWrite, valueWrite, attention, factor] = Array.from({ length: 7 }, hole);
const [pagesWrite, slots, valueCache] = Array.from({ length: 3 }, hole);

// The presents may be read by anyone: the new node makes them.
const written = (as: Pattern, past: Pattern, fresh: Pattern): Pattern =>
  shared(bound(as, op("TensorScatter", [past, fresh], more)));

const attended = (query: Pattern, key: Pattern, value: Pattern): Pattern => {
  const operands = [scaled(query, factor), written(keyWrite, pastKey, key), written(valueWrite, pastValue, value)];
  return bound(attention, either(op("Attention", operands, more), op("SinkAttention", operands, { ...own, ...more })));
};

/** Rows as a list of tokens, by way of heads apart or not: whatever is in between, the order stays, and the write says what the last shape is. */
const listed = (rows: Pattern): Pattern => either(reshaped(reshaped(rows)), reshaped(rows));

/** Keys, turned as rows or with heads in front. */
const turnedTokens = (from: Side): Pattern => either(reshaped(swapped(turnedHeads(from))), listed(turnedRows(from)));

const writtenPages: Pattern = shared(
  bound(
    pagesWrite,
    op("ScatterPaKvCache", [turnedTokens(keys), pastKey, slots, listed(values), pastValue], { ...own, ...more }),
  ),
);

const attendedPages = (query: Pattern): Pattern =>
  bound(attention, op("PagedAttention", [scaled(query, factor), writtenPages, valueCache], { ...own, ...more }));

/** How an attention takes heads: side by side, or in front. */
const linear: Pattern = either(
  headsTogether(swapped(attended(turnedHeads(queries), turnedHeads(keys), swapped(headsApart(values))))),
  attended(turnedRows(queries), turnedRows(keys), values),
);
const paged: Pattern = either(
  headsTogether(swapped(attendedPages(turnedHeads(queries)))),
  attendedPages(turnedRows(queries)),
);

/** Heads, those of keys, and their size. */
interface Sizes {
  readonly heads: number;
  readonly keyHeads: number;
  readonly size: number;
}

/** What the new node has of its caches' layout. */
interface Caches {
  readonly sizes: Sizes;
  readonly presents: readonly (Value | undefined)[];
  /** The numbers of linear caches, behind the pasts. */
  readonly numbers?: readonly (Value | undefined)[];
  /** The numbers of pages, behind all others. */
  readonly pages?: readonly (Value | undefined)[];
  readonly sink: Value | undefined;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
}

/** The caches that a match writes and reads; undefined where no node of ours does the same. */
type CachesOf = (match: Match, attention: Node, isFront: boolean) => Caches | undefined;

const linearCaches: CachesOf = (match, node, isFront) => {
  const writes = [match.node(keyWrite), match.node(valueWrite)];
  const [cache, other] = [pastKey, pastValue].map((past) => shapeOf(match.value(past)));
  // One cache for keys and values alike is written once: no node of two writes stands for that.
  if (cache === undefined || cache.length !== (isFront ? 4 : 3) || writes[0] === writes[1]) return undefined;
  const axis = isFront ? 2 : 1;
  const [heads, keyHeads] = isFront
    ? [shapeOf(match.value(attention))?.[1], cache[1]]
    : [node.attrs["q_num_heads"] as number | undefined, node.attrs["kv_num_heads"] as number | undefined];
  const width = cache.at(-1)!;
  if (heads === undefined || keyHeads === undefined || !isKnown(heads) || !isKnown(keyHeads) || !isKnown(width))
    return undefined;
  const size = isFront ? width : width / keyHeads;
  if (other?.length !== cache.length || !same(other.at(-1), width)) return undefined;
  if (writes.some((write) => axisOf(write.attrs["axis"] as number, cache.length) !== axis)) return undefined;
  if (writes[0].inputs[2] !== writes[1].inputs[2] || writes[0].attrs["mode"] !== writes[1].attrs["mode"])
    return undefined;
  if (!isPlainAttention(node)) return undefined;
  const rows = [node.inputs[0], writes[0].inputs[1], writes[1].inputs[1]];
  const counts = [heads, keyHeads, keyHeads];
  if (!rows.every((each, at) => isCutInto(each, counts[at], size, isFront))) return undefined;
  return {
    sizes: { heads, keyHeads, size },
    presents: writes.map(({ outputs }) => outputs[0]),
    numbers: [writes[0].inputs[2], node.inputs[6]],
    sink: node.inputs[7],
    attributes: { axis: int(axis), mode: string(writes[0].attrs["mode"] as string) },
  };
};

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

const pagedCaches: CachesOf = (match, node, isFront) => {
  const scatter = match.node(pagesWrite);
  const layout = layoutOf(scatter, node);
  const presents = scatter.outputs.slice(0, 2);
  if (layout === undefined || presents[1] === undefined || match.value(valueCache) !== presents[1]) return undefined;
  // Whoever else attends over these pages would have to come after the new node.
  if (presents.some((present) => match.index.readersOf(present!).size > 1)) return undefined;
  const pasts = [match.value(pastKey), match.value(pastValue)];
  if (pasts.some((cache) => typeOf(cache) !== typeOf(match.value(queries.source)))) return undefined;
  const [keyCache, otherCache] = pasts.map(shapeOf);
  if (keyCache?.length !== 4 || otherCache?.length !== 4) return undefined;
  const heads = isFront ? shapeOf(match.value(attention))?.[1] : (node.attrs["q_num_heads"] as number | undefined);
  const keyHeads = keyCache[layout === "NHSD" ? 1 : 2];
  const size = keyCache[3];
  // Slots are written in whole words.
  if (heads === undefined || !isKnown(heads) || !isKnown(keyHeads) || !isKnown(size) || size % 4 !== 0)
    return undefined;
  if (otherCache[3] !== size || otherCache[layout === "NHSD" ? 1 : 2] !== keyHeads) return undefined;
  const [tables, lengths] = node.inputs.slice(3, 5);
  return {
    sizes: { heads, keyHeads, size },
    presents,
    pages: [match.value(slots), tables, lengths, node.inputs[7]],
    sink: node.inputs[8],
    attributes: { cache_mode: string(layout) },
  };
};

/** The layout of the pages, where it is one in which heads lie together, written and read alike, with one table for all heads. */
function layoutOf(scatter: Node, reads: Node): "Norm" | "NHSD" | undefined {
  const [tables, lengths, ...scales] = reads.inputs.slice(3, 7);
  const { scatter_mode: mode, cache_mode: written, check } = scatter.attrs;
  const layout = mode === "NHSD" ? "NHSD" : mode === "None" ? written : undefined;
  const isAsked = reads.outputs.slice(1).some((value) => value !== undefined);
  if (scatter.inputs.slice(5).some((value) => value !== undefined) || scales.some((value) => value !== undefined))
    return undefined;
  if (check === true || isAsked || shapeOf(tables)?.length !== 2 || shapeOf(lengths)?.length !== 1) return undefined;
  return (layout === "Norm" || layout === "NHSD") && layout === reads.attrs["cache_mode"] ? layout : undefined;
}

/** Attentions of a layout with their writes. */
const fused = (graph: Graph, operators: OperatorSet, pattern: Pattern, cachesOf: CachesOf): Graph =>
  rewrite(graph, operators, {
    pattern,
    replace(match, edit, root) {
      const node = match.node(attention);
      const caches = cachesOf(match, node, match.value(attention) !== root);
      if (caches === undefined) return false;
      const none = [undefined, undefined];
      const { sizes, presents, numbers = none, pages = [...none, ...none], sink } = caches;
      const { heads, keyHeads, size } = sizes;
      const [q, k, v] = [queries.source, keys.source, values].map((from) => match.value(from));
      if (!isSideBySide({ queries: q, keys: k, values: v }, heads, keyHeads, size)) return false;
      const [ofQueries, ofKeys] = [
        preparationOf(match, queries, heads, size),
        preparationOf(match, keys, keyHeads, size),
      ];
      if (ofQueries === undefined || ofKeys === undefined || !areAlike(ofQueries, ofKeys)) return false;
      const [cos, sin, positions] = ofQueries.turn?.operands ?? [];
      const turning = [cos, sin, positions, ofQueries.norm?.scale, ofKeys.norm?.scale];
      const pasts = [match.value(pastKey), match.value(pastValue)];
      edit.node("CachedAttention", [q, k, v, ...pasts, ...numbers, ...turning, ...pages, sink], {
        ...own,
        attributes: {
          ...attentionAttributes(node, { ...sizes, q: ofQueries }, match.number(factor, 1)),
          ...caches.attributes,
        },
        outputs: [root, ...presents],
      });
      return true;
    },
  });

/** The graph with attentions that write their caches. */
export const fuseCachedAttention = (graph: Graph, operators: OperatorSet): Graph => {
  const onLinear = fused(graph, operators, linear, linearCaches);
  const all = withOneProduct(fused(onLinear, operators, paged, pagedCaches), operators, "CachedAttention");
  return withWholeRows(all, operators, "CachedAttention");
};
