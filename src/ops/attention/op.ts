/**
 * Attention: scaled dot-product attention over 3- or 4-dimensional operands, with a cache inside (past → present, from opset 23) or
 * outside (nonpad_kv_seqlen, from opset 24), and sliding windows (from opset 25). SinkAttention is insitu's own: the same over a cache written
 * outside, with a score for each head that takes part in every softmax and brings no value.
 */
import { int } from "../../graph/attribute.js";
import { update } from "../../graph/effect.js";
import { defineOp, laterOp, optional, tensor } from "../../graph/op.js";
import type { View } from "../../tensor/view.js";
import { floats, numeric } from "../shared/rules/types.js";
import { appendedRows } from "./appended.js";
import { attrs, inferAttention, inputs, validateAttention, type Version } from "./infer.js";
import { runAttention } from "./reference.js";
import { attentionSteps } from "../shared/rules/work.js";

const types = { T1: floats, T2: floats, U: [...numeric, "bool"] } as const;

const outputs = {
  Y: tensor("T1"),
  present_key: optional(tensor("T1")),
  present_value: optional(tensor("T2")),
  qk_matmul_output: optional(tensor("T1")),
};

const effects = { present_key: update("past_key", { grows: 2 }), present_value: update("past_value", { grows: 2 }) };

/** The rows after those of the past. */
const overwrites = (call: {
  readonly inputs: { readonly past_key: View | undefined; readonly past_value: View | undefined };
  readonly outputs: { readonly present_key: View | undefined; readonly present_value: View | undefined };
}): { present_key: View[]; present_value: View[] } => ({
  present_key: appendedRows(call.inputs.past_key, call.outputs.present_key),
  present_value: appendedRows(call.inputs.past_value, call.outputs.present_value),
});

const version23: Version = { maskEnd: "broadcast", headCountsWith4D: true };
const version24: Version = { maskEnd: "pad", headCountsWith4D: true };
const version25: Version = { maskEnd: "pad", headCountsWith4D: false };

/** Attends with a cache inside the operator; the mask broadcasts to all keys. */
export const Attention23 = defineOp({
  name: "Attention",
  since: 23,
  types,
  inputs,
  outputs,
  attrs,
  effects,
  overwrites,
  rows: { masks: ["attn_mask"] },
  infer: (call) => inferAttention(call, version23),
  work: ({ inputs }) => attentionSteps(inputs.Q, inputs.K, inputs.past_key),
  reference: (call) => runAttention(call, version23),
});

/** What all have that attend over a cache written outside as well. */
const outside = {
  types,
  outputs,
  effects,
  overwrites,
  lengths: { end: "nonpad_kv_seqlen" },
  looksAt: ["nonpad_kv_seqlen"],
  validate: validateAttention,
} as const;

const inputs24 = { ...inputs, nonpad_kv_seqlen: optional(tensor("int64")) };

/** Attends also over a cache written outside, of which `nonpad_kv_seqlen` rows are valid; a shorter mask is padded with −∞. */
export const Attention24 = defineOp({
  name: "Attention",
  since: 24,
  ...outside,
  inputs: inputs24,
  attrs,
  rows: { masks: ["attn_mask"] },
  infer: (call) => inferAttention(call, version24),
  work: ({ inputs: { Q, K, past_key } }) => attentionSteps(Q, K, past_key),
  reference: (call) => runAttention(call, version24),
});

/** Attends also within sliding windows around each query's position. */
export const Attention25 = defineOp({
  name: "Attention",
  since: 25,
  ...outside,
  inputs: inputs24,
  attrs: { ...attrs, left_window_size: int(-1), right_window_size: int(-1) },
  rows: { window: ({ left_window_size: left }) => (left < 0 ? undefined : left + 1), masks: ["attn_mask"] },
  infer: (call) => inferAttention(call, version25),
  work: ({ inputs: { Q, K, past_key } }) => attentionSteps(Q, K, past_key),
  reference: (call) => runAttention(call, version25),
});

/** Attends as Attention25 does, with a sink for each head; what the rewriter makes of attentions that have sinks. */
export const SinkAttention = {
  ...laterOp(Attention25, { since: 1, inputs: { ...inputs24, head_sink: tensor("T1") } }),
  name: "SinkAttention",
  domain: "insitu",
};
