/**
 * MoE and QMoE: each token goes to the `k` of many experts that its scores choose, and what they answer is weighed and summed. An expert is
 * two products with an activation between them, or three where the activation is gated; QMoE has weights of 2, 4 or 8 bits.
 */
import { flag, float, int, oneOf, string } from "../../graph/attribute.js";
import type { Fact } from "../../graph/fact.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import type { ElementType } from "../../tensor/element-type.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { sizeOf } from "../shared/rules/work.js";
import { checkExperts, checkForm, expertsOf, floatBits, packedExperts, type WeightForm } from "./infer.js";
import { computeExperts } from "./reference.js";

const floats: readonly ElementType[] = ["float32", "float16", "bfloat16"];

const attrs = {
  activation_alpha: float(1),
  activation_beta: float(0),
  activation_type: oneOf(["relu", "gelu", "silu", "swiglu", "identity"], "relu"),
  k: int(1),
  normalize_routing_weights: flag(false),
  swiglu_fusion: int(0),
  swiglu_limit: float(Infinity),
  use_sparse_mixer: flag(false),
} as const;

/** Weights as they are. */
const whole: WeightForm = { bits: floatBits, blockSize: 0 };

/** Steps of the products of those experts that are chosen, weights of `perElement` to an element. */
const workOf = (input: Fact, weights: Fact, k: number, perElement: number): number => {
  const hidden = input.shape?.at(-1);
  const experts = weights.shape?.[0];
  if (typeof hidden !== "number" || typeof experts !== "number" || hidden === 0 || experts === 0) return Infinity;
  return ((sizeOf(input) / hidden) * k * 3 * sizeOf(weights) * perElement) / experts;
};

/** Experts with float weights. */
export const MoE = defineOp({
  name: "MoE",
  domain: "com.microsoft",
  since: 1,
  types: { T: floats },
  inputs: {
    input: tensor("T"),
    router_probs: tensor("T"),
    fc1_experts_weights: tensor("T"),
    fc1_experts_bias: optional(tensor("T")),
    fc2_experts_weights: tensor("T"),
    fc2_experts_bias: optional(tensor("T")),
    fc3_experts_weights: optional(tensor("T")),
    fc3_experts_bias: optional(tensor("T")),
  },
  outputs: { output: tensor("T") },
  attrs,

  infer(call) {
    const { input, router_probs: scores, fc3_experts_weights: third, fc3_experts_bias: bias } = call.inputs;
    call.check(
      third !== undefined || bias === undefined,
      "fc3_experts_bias needs fc3_experts_weights",
      "invalid-graph",
    );
    checkExperts(call, { input, scores }, expertsOf(call.inputs), call.attrs, whole);
    return { output: { shape: input.shape } };
  },

  work: ({ inputs, attrs: { k } }) => workOf(inputs.input, inputs.fc2_experts_weights, k, 1),

  reference(call) {
    const { input, router_probs: scores } = call.inputs;
    const operands = expertsOf(call.inputs);
    computeExperts({
      input,
      scores,
      given: undefined,
      output: call.outputs.output,
      operands,
      attrs: call.attrs,
      form: whole,
    });
  },
});

/** Experts with weights of few bits: (level − zero point) · scale, in blocks along each row or one for the row. */
export const QMoE = defineOp({
  name: "QMoE",
  domain: "com.microsoft",
  since: 1,
  types: {
    T: floats,
    T1: ["uint8", "float8e4m3fn"],
    T2: [...floats, "float8e8m0", "float8e4m3fn"],
    T4: ["float32"],
  },
  inputs: {
    input: tensor("T"),
    router_probs: tensor("T"),
    fc1_experts_weights: tensor("T1"),
    fc1_scales: optional(tensor("T2")),
    fc1_experts_bias: optional(tensor("T")),
    fc2_experts_weights: tensor("T1"),
    fc2_scales: optional(tensor("T2")),
    fc2_experts_bias: optional(tensor("T")),
    fc3_experts_weights: optional(tensor("T1")),
    fc3_scales: optional(tensor("T2")),
    fc3_experts_bias: optional(tensor("T")),
    fc1_zero_points: optional(tensor("T1")),
    fc2_zero_points: optional(tensor("T1")),
    fc3_zero_points: optional(tensor("T1")),
    router_weights: optional(tensor("T")),
    fc1_global_scale: optional(tensor("T4")),
    fc2_global_scale: optional(tensor("T4")),
    fc1_act_scale: optional(tensor("T4")),
    fc2_act_scale: optional(tensor("T4")),
    fc1_act_block_scale: optional(tensor("T2")),
    fc2_act_block_scale: optional(tensor("T2")),
  },
  outputs: { output: tensor("T") },
  attrs: {
    ...attrs,
    block_size: int(0),
    expert_weight_bits: int(4),
    quant_type: string("int"),
    weights_prepacked: int(-1),
  },

  infer(call) {
    const { inputs, attrs: given } = call;
    const { input, router_probs: scores, router_weights: weights } = inputs;
    const form = { bits: given.expert_weight_bits, blockSize: given.block_size };
    checkForm(call, form, given.quant_type, given.weights_prepacked);
    const third = [inputs.fc3_scales, inputs.fc3_experts_bias, inputs.fc3_zero_points];
    call.check(
      inputs.fc3_experts_weights !== undefined || third.every((each) => each === undefined),
      "fc3_scales, fc3_experts_bias and fc3_zero_points need fc3_experts_weights",
      "invalid-graph",
    );
    checkExperts(call, { input, scores }, expertsOf(inputs), given, form);
    checkRank(call, "router_weights", weights, 2);
    weights?.shape?.forEach((dim, axis) => {
      if (scores.shape !== undefined)
        unifyDims(call, dim, scores.shape[axis], `router_weights and router_probs must agree in dimension ${axis}`);
    });
    return { output: { shape: input.shape } };
  },

  packed: ({ quant_type: type, expert_weight_bits: bits, block_size: block, weights_prepacked: how }, weights) =>
    type === "int" ? packedExperts({ bits, blockSize: block }, how, weights) : undefined,

  work: ({ inputs, attrs: { k, expert_weight_bits: bits } }) =>
    workOf(inputs.input, inputs.fc2_experts_weights, k, 8 / bits),

  reference(call) {
    const { input, router_probs: scores, router_weights: given } = call.inputs;
    const form = { bits: call.attrs.expert_weight_bits, blockSize: call.attrs.block_size };
    computeExperts({
      input,
      scores,
      given,
      output: call.outputs.output,
      operands: expertsOf(call.inputs),
      attrs: call.attrs,
      form,
    });
  },
});
