/**
 * The write of a step's rows into pages, the attention over them and what is done to the rows before, made one node.
 *
 *     q ──▶ [norm of heads] ──▶ [RotaryEmbedding] ─────────────────────────────────────────────────┐
 *     k ──▶ [norm of heads] ──▶ [RotaryEmbedding] ──▶ Reshape ─┐                                   │
 *     v ──────────────────────────────────────────────▶ Reshape ─┴▶ ScatterPaKvCache slot_mapping ─┴▶ PagedAttention block_tables, seq_lens ──▶ y
 *                                                              ⇒   q, k, v, caches, … ──▶ PagedCachedAttention ──▶ y
 *
 * Rows have heads side by side; the attention reads and writes them so, or with heads in front and a Transpose around it. Where q, k and v are
 * Projections of one value, they become one as well. PagedCachedAttention is insitu's own: only for backends that have a kernel for it.
 */
import { string } from "../graph/attribute-values.js";
import { isKnown } from "../graph/dim.js";
import type { Graph, Node, Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { shapeOf, typeOf } from "./facts.js";
import { headsTogether, reshaped, swapped } from "./heads.js";
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
} from "./turned-heads.js";

const own = { domain: "insitu" } as const;
const more = { more: true } as const;

const [queries, keys] = [side(), side()];
const [values, pastKey, pastValue, slots, valueCache, write, attention, factor] = Array.from({ length: 8 }, hole);

/** Rows as a list of tokens, by way of heads apart or not: whatever is in between, the order stays, and the write says what the last shape is. */
const listed = (rows: Pattern): Pattern => either(reshaped(reshaped(rows)), reshaped(rows));

/** Keys, turned as rows or with heads in front. */
const turnedTokens = (from: Side): Pattern => either(reshaped(swapped(turnedHeads(from))), listed(turnedRows(from)));

// The presents may be read by anyone: the new node makes them.
const written: Pattern = shared(
  bound(
    write,
    op("ScatterPaKvCache", [turnedTokens(keys), pastKey, slots, listed(values), pastValue], { ...own, ...more }),
  ),
);

const attended = (query: Pattern): Pattern =>
  bound(attention, op("PagedAttention", [scaled(query, factor), written, valueCache], { ...own, ...more }));

const packed: Pattern = attended(turnedRows(queries));
const inFront: Pattern = headsTogether(swapped(attended(turnedHeads(queries))));

/** The layout of the caches, where it is one in which heads lie together, written and read alike, with one table for all heads. */
function layoutOf(scatter: Node, reads: Node): "Norm" | "NHSD" | undefined {
  const [tables, lengths, ...scales] = reads.inputs.slice(3, 7);
  const { scatter_mode: mode, cache_mode: written, check } = scatter.attrs;
  const layout = mode === "NHSD" ? "NHSD" : mode === "None" ? written : undefined;
  const hasSinks = reads.inputs[8] !== undefined;
  const isAsked = reads.outputs.slice(1).some((value) => value !== undefined);
  if (scatter.inputs.slice(5).some((value) => value !== undefined) || scales.some((value) => value !== undefined))
    return undefined;
  if (check === true || isAsked || hasSinks || shapeOf(tables)?.length !== 2 || shapeOf(lengths)?.length !== 1)
    return undefined;
  return (layout === "Norm" || layout === "NHSD") && layout === reads.attrs["cache_mode"] ? layout : undefined;
}

/** Attentions over pages with their writes. */
const withPages = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: either(inFront, packed),
    replace(match, edit, root) {
      const [scatter, node] = [match.node(write), match.node(attention)];
      const layout = layoutOf(scatter, node);
      const presents = scatter.outputs.slice(0, 2);
      if (layout === undefined || presents[1] === undefined || match.value(valueCache) !== presents[1]) return false;
      // Whoever else attends over these pages would have to come after the new node.
      if (presents.some((present) => match.index.readersOf(present!).size > 1)) return false;
      const isFront = match.value(attention) !== root;
      const sizes = sizesOf(match, node, isFront, layout);
      if (sizes === undefined) return false;
      const q = preparationOf(match, queries, sizes.heads, sizes.size);
      const k = preparationOf(match, keys, sizes.keyHeads, sizes.size);
      if (q === undefined || k === undefined || !areAlike(q, k)) return false;
      const sources = [queries.source, keys.source, values].map((from) => match.value(from));
      if ([match.value(pastKey), match.value(pastValue)].some((cache) => typeOf(cache) !== typeOf(sources[0])))
        return false;
      const [cos, sin, positions] = q.turn?.operands ?? [];
      const { inputs } = node;
      edit.node(
        "PagedCachedAttention",
        [
          ...sources,
          match.value(pastKey),
          match.value(pastValue),
          match.value(slots),
          inputs[3],
          inputs[4],
          cos,
          sin,
          positions,
          q.norm?.scale,
          k.norm?.scale,
          inputs[7],
        ],
        {
          ...own,
          attributes: {
            ...attentionAttributes(node, { ...sizes, q }, match.number(factor, 1)),
            cache_mode: string(layout),
          },
          outputs: [root, ...presents],
        },
      );
      return true;
    },
  });

/** Heads, key heads and their size; undefined where rows do not have them side by side, in whole words. */
function sizesOf(
  match: Match,
  { attrs }: Node,
  isFront: boolean,
  layout: "Norm" | "NHSD",
): { readonly heads: number; readonly keyHeads: number; readonly size: number } | undefined {
  const [keyCache, otherCache] = [pastKey, pastValue].map((cache) => shapeOf(match.value(cache)));
  if (keyCache?.length !== 4 || otherCache?.length !== 4) return undefined;
  const heads = isFront ? shapeOf(match.value(attention))?.[1] : (attrs["q_num_heads"] as number | undefined);
  const keyHeads = keyCache[layout === "NHSD" ? 1 : 2];
  const size = keyCache[3];
  if (heads === undefined || !isKnown(heads) || !isKnown(keyHeads) || !isKnown(size) || size % 4 !== 0)
    return undefined;
  if (otherCache[3] !== size || otherCache[layout === "NHSD" ? 1 : 2] !== keyHeads) return undefined;
  const sources: Record<"queries" | "keys" | "values", Value> = {
    queries: match.value(queries.source),
    keys: match.value(keys.source),
    values: match.value(values),
  };
  return isSideBySide(sources, heads, keyHeads, size) ? { heads, keyHeads, size } : undefined;
}

/** The graph with attentions that write their pages. */
export const fusePagedCachedAttention = (graph: Graph, operators: OperatorSet): Graph =>
  withOneProduct(withPages(graph, operators), operators, "PagedCachedAttention");
