/**
 * Patterns of what is done to a step's heads before an attention, for the passes that take it in: the norm of heads and the rotary embedding, of rows with
 * heads side by side and of heads in front.
 */
import type { Graph, Node, Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { float, int } from "../graph/attribute-values.js";
import type { AttributeValue } from "../graph/attribute.js";
import { axisOf, haveSameShape, isConstant, lastDim, same, shapeOf } from "./facts.js";
import { joinedOperands, projection } from "./fuse-projection.js";
import { headsApart, joins, reshaped, swapped } from "./heads.js";
import { bound, either, hole, type Match, op, type Pattern, provided, scalar, unordered } from "./match.js";
import { rewrite } from "./rewrite.js";
import { part, spanOf } from "./spans.js";

const own = { domain: "insitu" } as const;
const more = { more: true } as const;

/** Queries or keys: where they come from, and what is done to them. */
export interface Side {
  readonly source: Pattern;
  readonly scale: Pattern;
  readonly normalized: Pattern;
  readonly rotated: Pattern;
}
export const side = (): Side => ({ source: hole(), scale: hole(), normalized: hole(), rotated: hole() });

/** Heads taken apart in any shape, normalized or not. */
const ready = ({ source, scale, normalized }: Side): Pattern => {
  const split = reshaped(source);
  const norm = either(op("SimplifiedLayerNormalization", [split, scale]), op("RMSNormalization", [split, scale]));
  return either(bound(normalized, norm), split);
};

/** Heads apart, [batch, length, heads, size] of rows [batch, length, heads · size]. */
const readyHeads = (from: Side): Pattern =>
  provided(ready(from), (value, match) => joins(shapeOf(value), shapeOf(match.value(from.source)), 2));

/** Rows with heads side by side: in the shape that they had before heads were taken apart. */
const rows = (from: Side): Pattern =>
  either(
    provided(reshaped(ready(from)), (value, match) => haveSameShape(value, match.value(from.source))),
    from.source,
  );
export const turnedRows = (from: Side): Pattern =>
  either(bound(from.rotated, op("RotaryEmbedding", [rows(from)], more)), rows(from));

/** The same with heads in front, turned before or behind the Transpose. */
export const turnedHeads = (from: Side): Pattern =>
  either(
    bound(from.rotated, op("RotaryEmbedding", [swapped(readyHeads(from))], more)),
    swapped(headsApart(turnedRows(from))),
    swapped(readyHeads(from)),
  );

/** Queries times a number, which becomes part of the attention's scale. */
export const scaled = (query: Pattern, factor: Pattern): Pattern =>
  either(
    query,
    unordered(
      "Mul",
      query,
      scalar(() => true, factor),
    ),
  );

/** What must be the same for queries and keys. */
interface Preparation {
  readonly norm: { readonly scale: Value; readonly epsilon: number } | undefined;
  readonly turn: { readonly operands: readonly (Value | undefined)[]; readonly node: Node } | undefined;
}

/** How `count` heads of a size are made ready; undefined where a norm or a turn is of other heads. */
export function preparationOf(match: Match, from: Side, count: number, size: number): Preparation | undefined {
  const norm = match.find(from.normalized) === undefined ? undefined : match.node(from.normalized);
  const scale = match.find(from.scale);
  if (norm !== undefined) {
    const [rank, shape] = [shapeOf(norm.inputs[0])?.length ?? 0, shapeOf(scale)];
    if (axisOf(norm.attrs["axis"] as number, rank) !== rank - 1 || !isConstant(scale)) return undefined;
    if (shape?.length !== 1 || shape[0] !== size || lastDim(norm.inputs[0]) !== size) return undefined;
  }
  const turn = match.find(from.rotated) === undefined ? undefined : match.node(from.rotated);
  if (turn !== undefined && !turnsHeads(turn, count, size)) return undefined;
  return {
    norm: norm && { scale: scale!, epsilon: norm.attrs["epsilon"] as number },
    turn: turn && { operands: turn.inputs.slice(1), node: turn },
  };
}

/** True if a RotaryEmbedding turns so many heads of a size: rows are cut into as many as it says, heads in front are what they are. */
function turnsHeads({ inputs, attrs }: Node, count: number, size: number): boolean {
  const shape = shapeOf(inputs[0]);
  return shape?.length === 4 ? shape[1] === count && shape[3] === size : attrs["num_heads"] === count;
}

/** True if both are turned alike, and both or neither normalized with the same epsilon. */
export function areAlike(q: Preparation, k: Preparation): boolean {
  if (q.norm?.epsilon !== k.norm?.epsilon || (q.turn === undefined) !== (k.turn === undefined)) return false;
  if (q.turn === undefined || k.turn === undefined) return true;
  const [a, b] = [q.turn, k.turn];
  return (
    [0, 1, 2].every((position) => a.operands[position] === b.operands[position]) &&
    (["interleaved", "rotary_embedding_dim"] as const).every((name) => a.node.attrs[name] === b.node.attrs[name])
  );
}

/** True if queries, keys and values come as rows of heads side by side. */
export function isSideBySide(
  { queries, keys, values }: Readonly<Record<"queries" | "keys" | "values", Value>>,
  heads: number,
  keyHeads: number,
  size: number,
): boolean {
  const wanted: readonly (readonly [Value, number])[] = [
    [queries, heads],
    [keys, keyHeads],
    [values, keyHeads],
  ];
  const first = shapeOf(queries);
  return wanted.every(([from, count]) => {
    const shape = shapeOf(from);
    return shape?.length === 3 && shape[2] === count * size && same(shape[0], first?.[0]) && same(shape[1], first?.[1]);
  });
}

/** Sizes of an attention, and how its queries are made ready. */
interface HeadsTurned {
  readonly heads: number;
  readonly keyHeads: number;
  readonly size: number;
  readonly q: Preparation;
}

/** The attributes of an attention over turned heads: its sizes, what its scores are made by (`factor` stood before them), and how heads are turned. */
export const attentionAttributes = (
  { attrs }: Node,
  { heads, keyHeads, size, q: { norm, turn } }: HeadsTurned,
  factor: number,
): Record<string, AttributeValue> => ({
  q_num_heads: int(heads),
  kv_num_heads: int(keyHeads),
  head_size: int(size),
  is_causal: int(attrs["is_causal"] === true ? 1 : 0),
  scale: float(factor * ((attrs["scale"] as number | undefined) ?? 1 / Math.sqrt(size))),
  softcap: float((attrs["softcap"] as number | undefined) ?? 0),
  left_window_size: int((attrs["left_window_size"] as number | undefined) ?? -1),
  right_window_size: int((attrs["right_window_size"] as number | undefined) ?? -1),
  interleaved: int(turn?.node.attrs["interleaved"] === true ? 1 : 0),
  rotary_embedding_dim: int((turn?.node.attrs["rotary_embedding_dim"] as number | undefined) ?? 0),
  ...(norm === undefined ? {} : { epsilon: float(norm.epsilon) }),
});

const [query, key, value] = [hole(), hole(), hole()];
const cut = part(query, ({ step }) => step === 1);

/** Queries, keys and values that are cut out of one value, side by side: an operator that reads all three out of its first operand takes that. */
export const withWholeRows = (graph: Graph, operators: OperatorSet, name: string): Graph =>
  rewrite(graph, operators, {
    pattern: op(name, [cut, cut, cut], { ...own, ...more }),
    replace(match, edit, root) {
      const node = match.index.producerOf(root)!;
      const [q, k, v] = node.inputs.slice(0, 3).map((each) => spanOf(each!, match.index)!);
      if (q.from !== 0 || q.to !== k.from || k.to !== v.from || v.to !== v.size) return false;
      edit.node(name, [match.value(query), undefined, undefined, ...node.inputs.slice(3)], {
        ...own,
        attributes: Object.fromEntries(node.attributes),
        outputs: node.outputs,
      });
      return true;
    },
  });

/** Queries, keys and values of one value: one product, for an operator that reads all three out of its first operand. */
export const withOneProduct = (graph: Graph, operators: OperatorSet, name: string): Graph =>
  rewrite(graph, operators, {
    pattern: op(name, [projection(query), projection(key), projection(value)], { ...own, ...more }),
    replace(match, edit, root) {
      const node = match.index.producerOf(root)!;
      const parts = [query, key, value].map((part) => match.node(part));
      const operands = joinedOperands(edit, parts, "after");
      if (operands === undefined) return false;
      const attributes = { ...Object.fromEntries(parts[0].attributes), N: int(operands.N) };
      const all = edit.node("Projection", operands.inputs, { ...own, attributes });
      edit.node(name, [all, undefined, undefined, ...node.inputs.slice(3)], {
        ...own,
        attributes: Object.fromEntries(node.attributes),
        outputs: node.outputs,
      });
      return true;
    },
  });
