/**
 * Transposes around Attention, taken in: with 3 dimensions it reads and writes heads side by side.
 *
 *     q ──▶ Reshape [b,s,h,d] ──▶ Transpose [b,h,s,d] ─┐
 *     k ──▶ Reshape ──▶ Transpose ─────────────────────┤                                             q, k, v
 *     v ──▶ Reshape ──▶ Transpose ─────────────────────┴▶ Attention ──▶ Transpose ──▶ Reshape ──▶ y  ⇒  ╰─▶ Attention q_num_heads=h ──▶ y
 *
 * A RotaryEmbedding between Transpose and Attention is packed as well. All three operands must come that way: a cache of 4 dimensions
 * that is joined outside stands in the way, one that Attention itself joins does not.
 */
import { isKnown } from "../graph/dim.js";
import type { Graph, Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { shapeOf } from "./facts.js";
import { headsTogether, swapped } from "./heads.js";
import { bound, either, hole, type Match, op, type Pattern, shared } from "./match.js";
import { int } from "../graph/attribute-values.js";
import { type Edit, rewrite } from "./rewrite.js";

/** One operand: heads moved to the front, maybe rotated there. */
interface Side {
  /** [batch, length, heads, size] */
  readonly source: Pattern;
  readonly rotated: Pattern;
}
const side = (): Side => ({ source: hole(), rotated: hole() });
const [queries, keys, values] = [side(), side(), side()];
const attention = hole();

const comesFrom = ({ source, rotated }: Side): Pattern =>
  either(bound(rotated, op("RotaryEmbedding", [swapped(source)], { more: true })), swapped(source));

/** The operand with heads side by side, [batch, length, heads · size], and their number; undefined where that is no number. */
function packed({ source, rotated }: Side, match: Match, edit: Edit): { value: Value; heads: number } | undefined {
  const shape = shapeOf(match.value(source));
  if (shape?.length !== 4) return undefined;
  const [, , heads, size] = shape;
  if (!isKnown(heads) || !isKnown(size)) return undefined;
  const value = edit.node("Reshape", [match.value(source), edit.integers([0, 0, heads * size])]);
  if (match.find(rotated) === undefined) return { value, heads };
  const { inputs, attributes, opset } = match.node(rotated);
  const turned = edit.node("RotaryEmbedding", [value, ...inputs.slice(1)], {
    opset,
    attributes: { ...Object.fromEntries(attributes), num_heads: int(heads) },
  });
  return { value: turned, heads };
}

// Its present may be read by anyone: the new node makes it. Operands that others read stay for them.
const attended: Pattern = shared(
  bound(attention, op("Attention", [comesFrom(queries), comesFrom(keys), comesFrom(values)], { more: true })),
);

/** The graph with attentions that read and write heads side by side, where that saves Transposes. */
export const packAttentionHeads = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: headsTogether(swapped(attended)),
    replace(match, edit, root) {
      const node = match.node(attention);
      const result = match.value(attention);
      if (match.index.isOutput(result) || match.index.readersOf(result).size > 1) return false;
      const [q, k, v] = [queries, keys, values].map((operand) => packed(operand, match, edit));
      if (q === undefined || k === undefined || v === undefined || k.heads !== v.heads) return false;
      edit.node("Attention", [q.value, k.value, v.value, ...node.inputs.slice(3)], {
        opset: node.opset,
        attributes: {
          ...Object.fromEntries(node.attributes),
          q_num_heads: int(q.heads),
          kv_num_heads: int(k.heads),
        },
        outputs: [root, ...node.outputs.slice(1)],
      });
      return true;
    },
  });
