/** LinearAttention: attention whose past is one matrix a head, S [key size, value size], which every token updates and then reads. */
import { int } from "../../graph/attribute.js";
import { update } from "../../graph/effect.js";
import type { Fact } from "../../graph/fact.js";
import { defineOp, tensor } from "../../graph/op.js";
import { eachWithEach } from "../shared/rules/work.js";
import { attrs, inferLinearAttention, inputs, type Operands } from "./infer.js";
import { computeLinearAttention } from "./reference.js";

const floats = ["float16", "bfloat16", "float32"] as const;

const workOf = ({ inputs: { query, key, value } }: { inputs: Operands<Fact> }): number =>
  eachWithEach(query, key) + eachWithEach(key, value);

/** ONNX's: a state for each head of keys and values. */
export const LinearAttention = defineOp({
  name: "LinearAttention",
  since: 27,
  types: { T: floats, S: floats },
  inputs,
  outputs: { output: tensor("T"), present_state: tensor("S") },
  attrs,
  effects: { present_state: update("past_state") },
  infer: inferLinearAttention,
  work: workOf,
  reference: computeLinearAttention,
});

/** onnxruntime's: heads of queries and keys may also be fewer than those of values, and the state may have a window. */
export const MicrosoftLinearAttention = defineOp({
  name: "LinearAttention",
  domain: "com.microsoft",
  since: 1,
  types: { T: floats, S: floats },
  inputs,
  outputs: { output: tensor("T"), present_state: tensor("S") },
  attrs: { ...attrs, state_window: int(0) },
  effects: { present_state: update("past_state") },
  infer: inferLinearAttention,
  work: workOf,
  reference: computeLinearAttention,
});
