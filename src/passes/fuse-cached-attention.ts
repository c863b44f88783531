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
import { axisOf, orderOf, same, sameNumbers, shapeOf } from "./facts.js";
import { joinedOperands, projection } from "./fuse-projection.js";
import { bound, either, hole, type Match, op, type Pattern, scalar, shared, unordered } from "./match.js";
import { float, int, string } from "../graph/attribute-values.js";
import { type Edit, rewrite } from "./rewrite.js";

const own = { domain: "insitu" } as const;
const more = { more: true } as const;

/** Queries or keys: where they come from, and what is done to them. */
interface Side {
  readonly source: Pattern;
  readonly scale: Pattern;
  readonly normalized: Pattern;
  readonly rotated: Pattern;
}
const side = (): Side => ({ source: hole(), scale: hole(), normalized: hole(), rotated: hole() });

const swapped = (pattern: Pattern): Pattern =>
  op("Transpose", [pattern], { where: (node) => sameNumbers(orderOf(node, 4), [0, 2, 1, 3]) });
const reshaped = (pattern: Pattern): Pattern => op("Reshape", [pattern], more);

/** Heads apart, [batch, sequence, heads, size], normalized or not. */
const headsApart = ({ source, scale, normalized }: Side): Pattern => {
  const split = reshaped(source);
  const norm = either(op("SimplifiedLayerNormalization", [split, scale]), op("RMSNormalization", [split, scale]));
  return either(bound(normalized, norm), split);
};

/** Rows with heads side by side. */
const rows = (from: Side): Pattern => either(reshaped(headsApart(from)), from.source);
const turnedRows = (from: Side): Pattern =>
  either(bound(from.rotated, op("RotaryEmbedding", [rows(from)], more)), rows(from));

/** The same with heads in front, turned before or behind the Transpose. */
const turnedHeads = (from: Side): Pattern =>
  either(
    bound(from.rotated, op("RotaryEmbedding", [swapped(headsApart(from))], more)),
    swapped(reshaped(turnedRows(from))),
    swapped(headsApart(from)),
  );

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

/** Queries times a number, which becomes part of the attention's scale. */
const factor = hole();
const scaled = (query: Pattern): Pattern =>
  either(
    query,
    unordered(
      "Mul",
      query,
      scalar(() => true, factor),
    ),
  );

const packed: Pattern = attended(scaled(turnedRows(queries)), turnedRows(keys), values);
const inFront: Pattern = reshaped(
  swapped(attended(scaled(turnedHeads(queries)), turnedHeads(keys), swapped(reshaped(values)))),
);

/** What must be the same for queries and keys. */
interface Preparation {
  readonly norm: { readonly scale: Value; readonly epsilon: number } | undefined;
  readonly turn: { readonly operands: readonly (Value | undefined)[]; readonly node: Node } | undefined;
}

function preparationOf(match: Match, from: Side, size: number): Preparation | undefined {
  const norm = match.find(from.normalized) === undefined ? undefined : match.node(from.normalized);
  const scale = match.find(from.scale);
  if (norm !== undefined) {
    if (axisOf(norm.attrs["axis"] as number, 4) !== 3 || scale?.initializer === undefined) return undefined;
    const shape = shapeOf(scale);
    if (shape?.length !== 1 || shape[0] !== size) return undefined;
  }
  const turn = match.find(from.rotated) === undefined ? undefined : match.node(from.rotated);
  return {
    norm: norm && { scale: scale!, epsilon: norm.attrs["epsilon"] as number },
    turn: turn && { operands: turn.inputs.slice(1), node: turn },
  };
}

/** True if both are turned alike, and both or neither normalized with the same epsilon. */
function areAlike(q: Preparation, k: Preparation): boolean {
  if (q.norm?.epsilon !== k.norm?.epsilon || (q.turn === undefined) !== (k.turn === undefined)) return false;
  if (q.turn === undefined || k.turn === undefined) return true;
  const [a, b] = [q.turn, k.turn];
  return (
    [0, 1, 2].every((position) => a.operands[position] === b.operands[position]) &&
    (["interleaved", "rotary_embedding_dim"] as const).every((name) => a.node.attrs[name] === b.node.attrs[name])
  );
}

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
      const isFront = rank === 4;
      if (isFront === (match.value(attention) === root)) return false;
      const [heads, keyHeads] = isFront
        ? [shapeOf(match.value(attention))?.[1], cache[1]]
        : [node.attrs["q_num_heads"] as number | undefined, node.attrs["kv_num_heads"] as number | undefined];
      const width = cache.at(-1)!;
      if (heads === undefined || keyHeads === undefined || !isKnown(heads) || !isKnown(keyHeads) || !isKnown(width))
        return false;
      const size = isFront ? width : width / keyHeads;
      if (!same(shapeOf(match.value(pastValue))!.at(-1), width) || !isSideBySide(match, heads, keyHeads, size))
        return false;
      if (writes.some((write) => axisOf(write.attrs["axis"] as number, rank) !== axis)) return false;
      if (writes[0].inputs[2] !== writes[1].inputs[2] || writes[0].attrs["mode"] !== writes[1].attrs["mode"])
        return false;
      if (!isPlainAttention(node)) return false;
      const [q, k] = [queries, keys].map((from) => preparationOf(match, from, size));
      if (q === undefined || k === undefined || !areAlike(q, k)) return false;
      makeNode(match, edit, root, { heads, keyHeads, size, axis, q, k });
      return true;
    },
  });

/** True if queries, keys and values come as rows of heads side by side. */
function isSideBySide(match: Match, heads: number, keyHeads: number, size: number): boolean {
  const wanted: readonly (readonly [Pattern, number])[] = [
    [queries.source, heads],
    [keys.source, keyHeads],
    [values, keyHeads],
  ];
  const first = shapeOf(match.value(queries.source));
  return wanted.every(([from, count]) => {
    const shape = shapeOf(match.value(from));
    return shape?.length === 3 && shape[2] === count * size && same(shape[0], first?.[0]) && same(shape[1], first?.[1]);
  });
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
  const { heads, keyHeads, size, axis, q, k } = found;
  const { attrs, inputs } = match.node(attention);
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
        q_num_heads: int(heads),
        kv_num_heads: int(keyHeads),
        head_size: int(size),
        axis: int(axis),
        is_causal: int(attrs["is_causal"] === true ? 1 : 0),
        scale: float(match.number(factor, 1) * ((attrs["scale"] as number | undefined) ?? 1 / Math.sqrt(size))),
        softcap: float((attrs["softcap"] as number | undefined) ?? 0),
        left_window_size: int((attrs["left_window_size"] as number | undefined) ?? -1),
        right_window_size: int((attrs["right_window_size"] as number | undefined) ?? -1),
        mode: string(writeKey.attrs["mode"] as string),
        interleaved: int(q.turn?.node.attrs["interleaved"] === true ? 1 : 0),
        rotary_embedding_dim: int((q.turn?.node.attrs["rotary_embedding_dim"] as number | undefined) ?? 0),
        ...(q.norm === undefined ? {} : { epsilon: float(q.norm.epsilon) }),
      },
      outputs: [root, writeKey.outputs[0], writeValue.outputs[0]],
    },
  );
}

const [query, key, value] = [hole(), hole(), hole()];

/** Queries, keys and values of one value: one product. */
const withOneProduct = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: op("CachedAttention", [projection(query), projection(key), projection(value)], { ...own, ...more }),
    replace(match, edit, root) {
      const node = match.index.producerOf(root)!;
      const parts = [query, key, value].map((part) => match.node(part));
      const operands = joinedOperands(edit, parts, "after");
      if (operands === undefined) return false;
      const attributes = { ...Object.fromEntries(parts[0].attributes), N: int(operands.N) };
      const all = edit.node("Projection", operands.inputs, { ...own, attributes });
      edit.node("CachedAttention", [all, undefined, undefined, ...node.inputs.slice(3)], {
        ...own,
        attributes: Object.fromEntries(node.attributes),
        outputs: node.outputs,
      });
      return true;
    },
  });

/** The graph with attentions that write their caches. */
export const fuseCachedAttention = (graph: Graph, operators: OperatorSet): Graph =>
  withOneProduct(withCaches(graph, operators), operators);
