/**
 * GroupQueryAttention, onnxruntime's decoder attention: groups of query heads share key heads, rotary embedding inside, a cache that
 * either grows or is a buffer of fixed capacity whose valid length is data, optionally quantized or as short as the window.
 */
import { update } from "../../graph/effect.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { attrs, inputs } from "./call.js";
import { inferGroupQuery, validateGroupQuery } from "./infer.js";
import { runGroupQuery, writtenRows } from "./reference.js";
import { attentionSteps } from "../shared/rules/work.js";

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
  inputs,
  outputs: {
    output: tensor("T"),
    present_key: optional(tensor("T_CACHE")),
    present_value: optional(tensor("T_CACHE")),
    output_qk: optional(tensor("T")),
  },
  attrs,
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
  work: ({ inputs: { query, key, past_key } }) => attentionSteps(query, key, past_key),
  reference: runGroupQuery,
});
