/** MultiHeadAttention's operands and attributes, and what its rules and its reference implementation are called with. */
import { flag, float, int, required } from "../../graph/attribute.js";
import { type AttributeResults, type CallContext, optional, type PerParameter, tensor } from "../../graph/op.js";

/** The operands, in order. */
export const inputs = {
  query: tensor("T"),
  key: optional(tensor("T")),
  value: optional(tensor("T")),
  bias: optional(tensor("T")),
  key_padding_mask: optional(tensor("M")),
  attention_bias: optional(tensor("T")),
  past_key: optional(tensor("T")),
  past_value: optional(tensor("T")),
  past_sequence_length: optional(tensor("M")),
  cache_indirection: optional(tensor("M")),
};

/** The attributes. */
export const attrs = {
  mask_filter_value: float(-10000),
  num_heads: required(int()),
  scale: float(0),
  unidirectional: flag(false),
};

/** The outputs by name. */
export type OutputName = "output" | "present_key" | "present_value" | "qk";

/** A call with its operands and attributes. */
export interface MultiHeadCall<V> extends CallContext {
  readonly inputs: PerParameter<typeof inputs, V>;
  readonly attrs: AttributeResults<typeof attrs>;
}

/**
 * How the operands lie: apart ([batch, length, heads · size] each), keys and values by heads ([batch, heads, length, size]), keys and
 * values packed ([batch, length, heads, 2, size]), or all three packed ([batch, length, heads, 3, size]).
 */
export type Layout = "apart" | "by-heads" | "packed-kv" | "packed-qkv";

/** Fails unless the rows that a buffer already holds leave room for the fresh ones. */
export function checkPastLength(call: CallContext, past: number, fresh: number, capacity: number): void {
  call.check(
    past >= 0 && past + fresh <= capacity,
    () => `past_sequence_length + ${fresh} fresh rows must lie within the ${capacity} rows of past_key, got ${past}`,
    "invalid-argument",
  );
}
