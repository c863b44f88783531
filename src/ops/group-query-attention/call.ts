/** What GroupQueryAttention's rules and its reference implementation are called with, and the sizes both derive from it. */
import { flag, float, int, oneOf, required } from "../../graph/attribute.js";
import { type AttributeResults, type CallContext, optional, type PerParameter, tensor } from "../../graph/op.js";

const quantizations = ["NONE", "PER_TENSOR", "PER_CHANNEL"] as const;

/** How the cache is quantized. */
export type Granularity = (typeof quantizations)[number];

/** The operands, in order. */
export const inputs = {
  query: tensor("T"),
  key: optional(tensor("T")),
  value: optional(tensor("T")),
  past_key: optional(tensor("T_CACHE")),
  past_value: optional(tensor("T_CACHE")),
  seqlens_k: tensor("M"),
  total_sequence_length: tensor("M"),
  cos_cache: optional(tensor("T")),
  sin_cache: optional(tensor("T")),
  position_ids: optional(tensor("int64")),
  attention_bias: optional(tensor("T")),
  head_sink: optional(tensor("T")),
  k_scale: optional(tensor("T_KV_SCALE")),
  v_scale: optional(tensor("T_KV_SCALE")),
  q_norm_weight: optional(tensor("T")),
  k_norm_weight: optional(tensor("T")),
};

/** The attributes. */
export const attrs = {
  causal: flag(true),
  do_rotary: flag(false),
  k_quant_type: oneOf(quantizations, "NONE"),
  kv_cache_bit_width: int(0),
  kv_num_heads: required(int()),
  local_window_size: int(-1),
  num_heads: required(int()),
  qk_norm_epsilon: float(Math.fround(1e-6)),
  qk_output: int(0),
  // Exporters write it; onnxruntime's declaration has none. The tables say it as well.
  rotary_embedding_dim: int(0),
  rotary_interleaved: flag(false),
  scale: float(0),
  sliding_window_cache: flag(false),
  smooth_softmax: flag(false),
  softcap: float(0),
  v_quant_type: oneOf(quantizations, "NONE"),
};

/** The attributes by name. */
export type Attributes = AttributeResults<typeof attrs>;

/** The outputs by name. */
export type OutputName = "output" | "present_key" | "present_value" | "output_qk";

/** A call with its operands and attributes. */
export interface GroupQueryCall<V> extends CallContext {
  readonly inputs: PerParameter<typeof inputs, V>;
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
