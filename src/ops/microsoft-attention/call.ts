/** What com.microsoft's Attention is called with, and what of it MultiHeadAttention is called with. */
import { flag, float, int, ints, required } from "../../graph/attribute.js";
import { type AttributeResults, type CallContext, optional, type PerParameter, tensor } from "../../graph/op.js";
import { rowMajorStrides, View } from "../../tensor/view.js";

/** The operands, in order. */
export const inputs = {
  input: tensor("T"),
  weights: tensor("T"),
  bias: optional(tensor("T")),
  mask_index: optional(tensor("M")),
  past: optional(tensor("T")),
  attention_bias: optional(tensor("T")),
  past_sequence_length: optional(tensor("M")),
};

/** The attributes. */
export const attrs = {
  do_rotary: flag(false),
  mask_filter_value: float(-10000),
  num_heads: required(int()),
  past_present_share_buffer: flag(false),
  qkv_hidden_sizes: ints(),
  rotary_embedding_dim: int(0),
  scale: float(0),
  unidirectional: flag(false),
};

/** A call with its operands and attributes. */
export interface AttentionCall<V> extends CallContext {
  readonly inputs: PerParameter<typeof inputs, V>;
  readonly attrs: AttributeResults<typeof attrs>;
}

/** The columns of weights that make queries, keys and values, `columns` in all. */
export function widthsOf(
  { qkv_hidden_sizes: sizes }: Pick<AttributeResults<typeof attrs>, "qkv_hidden_sizes">,
  columns: number,
): readonly [queries: number, keys: number, values: number] {
  if (sizes === undefined || sizes.length !== 3) return [columns / 3, columns / 3, columns / 3];
  return [sizes[0], sizes[1], sizes[2]];
}

/** True for a mask that hides nothing: [batch or 1, 1] where there is more than one key. */
export const isDummy = (shape: readonly number[], total: number): boolean =>
  shape.length === 2 && shape[1] === 1 && total !== 1;

/** True for a mask of ends, and behind them of starts, one for each sample. */
export const hasStarts = (shape: readonly number[], batch: number): boolean =>
  shape.length === 1 && shape[0] === 2 * batch && batch !== 0;

/** The keys (0) or the values (1) of a past or a present [2, batch, heads, rows, size]. */
export function halfOf({ type, shape, strides, data, offset }: View, half: 0 | 1): View {
  return new View(type, shape.slice(1), data, offset + half * strides[0], strides.slice(1));
}

/** Columns of a matrix [batch, rows, all] as a tensor of their own. */
export function columnsOf(view: View, from: number, count: number): View {
  const [batch, rows] = view.shape;
  return new View(view.type, [batch, rows, count], view.data, view.offset + from, rowMajorStrides(view.shape));
}
