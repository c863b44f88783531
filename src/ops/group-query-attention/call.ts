/** What GroupQueryAttention's rules and its reference implementation are called with, and the sizes both derive from it. */
import type { CallContext } from "../../graph/op.js";

/** The operands by name. */
interface Operands<V> {
  readonly query: V;
  readonly key: V | undefined;
  readonly value: V | undefined;
  readonly past_key: V | undefined;
  readonly past_value: V | undefined;
  readonly seqlens_k: V;
  readonly total_sequence_length: V;
  readonly cos_cache: V | undefined;
  readonly sin_cache: V | undefined;
  readonly position_ids: V | undefined;
  readonly attention_bias: V | undefined;
  readonly head_sink: V | undefined;
  readonly k_scale: V | undefined;
  readonly v_scale: V | undefined;
  readonly q_norm_weight: V | undefined;
  readonly k_norm_weight: V | undefined;
}

/** How the cache is quantized. */
export type Granularity = "NONE" | "PER_TENSOR" | "PER_CHANNEL";

/** The attributes by name. */
export interface Attributes {
  readonly causal: boolean;
  readonly do_rotary: boolean;
  readonly k_quant_type: Granularity;
  readonly kv_cache_bit_width: number;
  readonly kv_num_heads: number;
  readonly local_window_size: number;
  readonly num_heads: number;
  readonly qk_norm_epsilon: number;
  readonly qk_output: number;
  readonly rotary_interleaved: boolean;
  readonly scale: number;
  readonly sliding_window_cache: boolean;
  readonly smooth_softmax: boolean;
  readonly softcap: number;
  readonly v_quant_type: Granularity;
}

/** The outputs by name. */
export type OutputName = "output" | "present_key" | "present_value" | "output_qk";

/** A call with its operands and attributes. */
export interface GroupQueryCall<V> extends CallContext {
  readonly inputs: Operands<V>;
  readonly attrs: Attributes;
}

/** The lengths of one step, in tokens. */
export interface Step {
  /** Samples of the batch. */
  readonly batch: number;
  /** Query tokens. */
  readonly length: number;
  /** Fresh key tokens: as many as queries, or none where the past already holds all keys. */
  readonly fresh: number;
  /** The most tokens that a sample has after this step. */
  readonly total: number;
  /** Rows of the past, and undefined without one. */
  readonly past: number | undefined;
}

/** True for the first step of a sequence: every token is new, and what the past holds is not looked at. */
export const isPrompt = ({ length, total }: Step): boolean => length === total;

/** Checks the lengths that are data: tokens of each sample after this step, minus one. */
export function checkLengths(call: GroupQueryCall<unknown>, seqlens: readonly number[], step: Step): void {
  const { length, fresh, total, past, batch } = step;
  call.check(total > 0, () => `total_sequence_length must be positive, got ${total}`, "invalid-argument");
  call.check(
    length === total || length === 1 || batch === 1,
    () => `${length} queries after a past need a batch of 1, got ${batch}`,
    "invalid-argument",
  );
  const windowed = call.attrs.sliding_window_cache;
  const capacity = Math.max(total, past ?? 0);
  call.check(
    fresh > 0 || length === 0 || total <= (past ?? 0),
    () => `without fresh keys the past must hold total_sequence_length rows, got ${past ?? 0} of ${total}`,
    "invalid-argument",
  );
  seqlens.forEach((last, sample) => {
    const named = `seqlens_k[${sample}]`;
    const most = windowed ? Infinity : capacity - 1;
    call.check(last >= 0 && last <= most, () => `${named} must lie in [0, ${most}], got ${last}`, "invalid-argument");
    call.check(
      isPrompt(step) || last + 1 >= length,
      () => `${named} must count the ${length} tokens of this step, got ${last}`,
      "invalid-argument",
    );
    if (windowed || past === undefined || fresh === 0 || isPrompt(step)) return;
    call.check(
      last + 1 - length <= past,
      () => `${named} = ${last} needs ${last + 1 - length} rows of the past, which has ${past}`,
      "invalid-argument",
    );
  });
}

/** The position of each token: given, counted from the first given one in a prompt, or counted from the past. */
export function tokenPositions(
  step: Step,
  seqlens: readonly number[],
  given: readonly number[] | undefined,
): (sample: number, token: number) => number {
  const { length } = step;
  const width = given === undefined ? 0 : given.length / Math.max(1, step.batch);
  if (isPrompt(step)) return (_, token) => (given?.[0] ?? 0) + token;
  return (sample, token) => given?.[sample * width + token] ?? seqlens[sample] + 1 - length + token;
}

/** Fails unless every token's position is a row of the rotary tables. */
export function checkPositions(
  call: CallContext,
  { batch, length }: Step,
  positionOf: (sample: number, token: number) => number,
  rows: number,
): void {
  for (let sample = 0; sample < batch; sample++)
    for (let token = 0; token < length; token++) {
      const position = positionOf(sample, token);
      call.check(
        position >= 0 && position < rows,
        () => `positions must lie in [0, ${rows - 1}], the rows of cos_cache and sin_cache, got ${position}`,
        "invalid-argument",
      );
    }
}
