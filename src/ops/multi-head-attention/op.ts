/**
 * MultiHeadAttention, onnxruntime's attention of encoders and older decoders: operands apart or packed, the biases of their
 * projections inside, padding masks of four forms, and a past that grows or is a buffer of fixed capacity.
 */
import { update } from "../../graph/effect.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import type { ElementType } from "../../tensor/element-type.js";
import { appendedRows } from "../attention/appended.js";
import { attrs, inputs } from "./call.js";
import { inferMultiHead, validateMultiHead } from "./infer.js";
import { runMultiHead } from "./reference.js";
import { attentionSteps } from "../shared/rules/work.js";

const floatTypes: readonly ElementType[] = ["float32", "float16", "bfloat16"];

/** Attends over past and fresh keys with additive masks; hands out the present and the masked scores where asked for. */
export const MultiHeadAttention = defineOp({
  name: "MultiHeadAttention",
  domain: "com.microsoft",
  since: 1,
  types: { T: floatTypes, QK: floatTypes, M: ["int32"] },
  inputs,
  outputs: {
    output: tensor("T"),
    present_key: optional(tensor("T")),
    present_value: optional(tensor("T")),
    qk: optional(tensor("QK")),
  },
  attrs,
  effects: { present_key: update("past_key", { grows: 2 }), present_value: update("past_value", { grows: 2 }) },
  overwrites: ({ inputs: { past_key, past_value }, outputs }) => ({
    present_key: appendedRows(past_key, outputs.present_key),
    present_value: appendedRows(past_value, outputs.present_value),
  }),
  rows: { masks: ["attention_bias"] },
  looksAt: ["past_sequence_length"],
  validate: validateMultiHead,
  infer: inferMultiHead,
  work: ({ inputs: { query, key, past_key } }) => attentionSteps(query, key, past_key),
  reference: runMultiHead,
});
