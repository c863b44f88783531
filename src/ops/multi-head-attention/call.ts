/** What MultiHeadAttention's rules and its reference implementation are called with. */
import type { CallContext } from "../../graph/op.js";

/** The operands by name. */
interface Operands<V> {
  readonly query: V;
  readonly key: V | undefined;
  readonly value: V | undefined;
  readonly bias: V | undefined;
  readonly key_padding_mask: V | undefined;
  readonly attention_bias: V | undefined;
  readonly past_key: V | undefined;
  readonly past_value: V | undefined;
  readonly past_sequence_length: V | undefined;
  readonly cache_indirection: V | undefined;
}

/** The attributes by name. */
interface Attributes {
  readonly mask_filter_value: number;
  readonly num_heads: number;
  readonly scale: number;
  readonly unidirectional: boolean;
}

/** The outputs by name. */
export type OutputName = "output" | "present_key" | "present_value" | "qk";

/** A call with its operands and attributes. */
export interface MultiHeadCall<V> extends CallContext {
  readonly inputs: Operands<V>;
  readonly attrs: Attributes;
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
