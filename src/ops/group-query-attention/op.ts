/**
 * GroupQueryAttention, onnxruntime's decoder attention: groups of query heads share key heads, rotary embedding inside, a cache that
 * either grows or is a buffer of fixed capacity whose valid length is data, optionally quantized or as short as the window.
 */
import { flag, float, int, oneOf, required } from "../../graph/attribute.js";
import { update } from "../../graph/effect.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { inferGroupQuery, validateGroupQuery } from "./infer.js";
import { runGroupQuery, writtenRows } from "./reference.js";
import { attentionSteps } from "../shared/rules/work.js";

const quantizations = ["NONE", "PER_TENSOR", "PER_CHANNEL"] as const;

/** Attends over past and fresh keys; writes the fresh ones behind the past. */
export const GroupQueryAttention = defineOp({
  name: "GroupQueryAttention",
  domain: "com.microsoft",
  since: 1,
  types: {
    T: ["float32", "float16", "bfloat16"],
    T_CACHE: ["float32", "float16", "bfloat16", "uint8", "int8", "float8e4m3fn"],
    T_KV_SCALE: ["float32"],
    M: ["int32"],
  },
  inputs: {
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
  },
  outputs: {
    output: tensor("T"),
    present_key: optional(tensor("T_CACHE")),
    present_value: optional(tensor("T_CACHE")),
    output_qk: optional(tensor("T")),
  },
  attrs: {
    causal: flag(true),
    do_rotary: flag(false),
    k_quant_type: oneOf(quantizations, "NONE"),
    kv_cache_bit_width: int(0),
    kv_num_heads: required(int()),
    local_window_size: int(-1),
    num_heads: required(int()),
    qk_norm_epsilon: float(Math.fround(1e-6)),
    qk_output: int(0),
    rotary_interleaved: flag(false),
    scale: float(0),
    sliding_window_cache: flag(false),
    smooth_softmax: flag(false),
    softcap: float(0),
    v_quant_type: oneOf(quantizations, "NONE"),
  },
  effects: {
    present_key: update("past_key", { grows: 2, keeps: { where: "sliding_window_cache", rows: "local_window_size" } }),
    present_value: update("past_value", {
      grows: 2,
      keeps: { where: "sliding_window_cache", rows: "local_window_size" },
    }),
  },
  rows: {
    window: ({ local_window_size: size }) => (size < 0 ? undefined : size),
    masks: ["attention_bias"],
    fromFront: true,
  },
  looksAt: ["seqlens_k", "total_sequence_length", "position_ids"],
  validate: validateGroupQuery,
  overwrites: writtenRows,
  infer: inferGroupQuery,
  work: ({ inputs }) => attentionSteps(inputs.query, inputs.key, inputs.past_key),
  reference: runGroupQuery,
});
