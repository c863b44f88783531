/**
 * com.microsoft's Attention, as onnxruntime's optimizer writes it for BERT and GPT-2: the projections of queries, keys and values inside, masks
 * of several forms, and past and present as one tensor.
 */
import { update } from "../../graph/effect.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { attentionSteps, eachWithEach } from "../shared/rules/work.js";
import { attrs, inputs } from "./call.js";
import { inferAttention, validateAttention } from "./infer.js";
import { runAttention } from "./reference.js";

/** Projects `input`, then attends over past and fresh keys. */
export const MicrosoftAttention = defineOp({
  name: "Attention",
  domain: "com.microsoft",
  since: 1,
  types: { T: ["float32", "float16", "bfloat16"], M: ["int32"] },
  inputs,
  outputs: { output: tensor("T"), present: optional(tensor("T")) },
  attrs,
  effects: { present: update("past", { grows: 3 }) },
  overwrites: ({ inputs: { past }, outputs: { present } }) => {
    if (present === undefined) return {};
    const [from, to] = [past?.shape[3] ?? 0, present.shape[3]];
    return { present: [to > from ? present.slice(3, from, to) : present] };
  },
  rows: { masks: ["mask_index", "attention_bias"] },
  looksAt: ["past_sequence_length"],
  validate: validateAttention,
  infer: inferAttention,
  work: ({ inputs: { input, weights, past } }) => eachWithEach(input, weights) + attentionSteps(input, undefined, past),
  reference: runAttention,
});
