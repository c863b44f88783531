/**
 * Projection: a product with constant weights, with the normalisation before it and what follows it. No operator of ONNX's: the passes make it
 * of MatMul or MatMulNBits and the nodes around them, for backends that do all of it at once.
 *
 *     A ──▶ [SimplifiedLayerNormalization] ──▶ · B + bias ──▶ [columns in pairs ──▶ SwiGLU] ──▶ [+ addend] ──▶ Y
 */
import { flag, float, int, required } from "../../graph/attribute.js";
import { float as floatValue, int as intValue } from "../../graph/attribute-values.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { SwiGLU } from "../activations/op.js";
import { Add } from "../arithmetic/op.js";
import { MatMulBias } from "../fused-matmul-bias/op.js";
import { MatMul } from "../matmul/op.js";
import { MatMulNBits } from "../matmul-nbits/op.js";
import { Reshape14 as Reshape } from "../reshape/op.js";
import { type BodyStep, inferComposed, integers, runComposed, step } from "../shared/families/composed.js";
import { eachWithEach } from "../shared/rules/work.js";
import { SimplifiedLayerNormalization } from "../simplified-layer-normalization/op.js";
import { Split18 as Split } from "../split/op.js";

const floats = ["float32", "float16", "bfloat16"] as const;

/** What decides the body. */
interface ProjectionCall {
  readonly inputs: Readonly<Record<"bias" | "scales" | "norm_scale" | "addend", unknown>> & {
    readonly A: { readonly shape?: readonly unknown[] | undefined };
  };
  readonly attrs: {
    readonly K: number;
    readonly N: number;
    readonly bits: number;
    readonly block_size: number;
    readonly accuracy_level: number;
    readonly epsilon: number;
    readonly gated: boolean;
  };
}

function bodyOf({ inputs, attrs }: ProjectionCall): readonly BodyStep[] {
  const { K, N, bits, block_size, accuracy_level: level, epsilon, gated } = attrs;
  const steps: BodyStep[] = [];
  let last = "A";
  const then = (made: BodyStep): void => void steps.push(made);
  if (inputs.norm_scale !== undefined) {
    const attributes = { axis: intValue(-1), epsilon: floatValue(epsilon) };
    then(step(SimplifiedLayerNormalization, [last, "norm_scale"], ["normalized"], attributes));
    last = "normalized";
  }
  const [bias, rest] = [inputs.bias === undefined ? undefined : "bias", inputs.addend !== undefined || gated];
  const product = rest ? "product" : "Y";
  if (inputs.scales !== undefined) {
    const sizes = { K: intValue(K), N: intValue(N), bits: intValue(bits), block_size: intValue(block_size) };
    const attributes = { ...sizes, accuracy_level: intValue(level) };
    const operands = [last, "B", "scales", "zero_points", undefined, bias];
    then(step(MatMulNBits, operands, [product], attributes));
  } else if (bias === undefined) then(step(MatMul, [last, "B"], [product]));
  else then(step(MatMulBias, [last, "B", bias], [product]));
  last = product;
  if (gated) {
    const rank = inputs.A.shape?.length ?? 1;
    const lead = Array.from({ length: rank - 1 }, () => 0);
    const result = inputs.addend === undefined ? "Y" : "gated";
    then(step(Reshape, [last, integers(...lead, N / 2, 2)], ["pairs"]));
    then(step(Split, ["pairs", integers(1, 1)], ["gates", "ups"], { axis: intValue(-1) }));
    then(step(Reshape, ["gates", integers(...lead, N / 2)], ["gate"]));
    then(step(Reshape, ["ups", integers(...lead, N / 2)], ["up"]));
    then(step(SwiGLU, ["gate", "up"], [result]));
    last = result;
  }
  if (inputs.addend !== undefined) then(step(Add, [last, "addend"], ["Y"]));
  return steps;
}

/** norm(A) · B + bias, gated where its columns are pairs of a gate and what it lets through, + addend. */
export const Projection = defineOp({
  name: "Projection",
  domain: "insitu",
  since: 1,
  types: { T: floats, W: [...floats, "uint8"], Z: [...floats, "uint8"] },
  inputs: {
    A: tensor("T"),
    /** [K, N], or blocks as MatMulNBits has them where there are scales. */
    B: tensor("W"),
    scales: optional(tensor("T")),
    zero_points: optional(tensor("Z")),
    bias: optional(tensor("T")),
    norm_scale: optional(tensor("T")),
    addend: optional(tensor("T")),
  },
  outputs: { Y: tensor("T") },
  attrs: {
    K: required(int()),
    /** Columns of B: twice those of Y where `gated`. */
    N: required(int()),
    bits: int(0),
    block_size: int(0),
    accuracy_level: int(0),
    epsilon: float(Math.fround(1e-5)),
    gated: flag(false),
  },

  infer(call) {
    const { gated, N } = call.attrs;
    call.check(!gated || N % 2 === 0, () => `a gate needs pairs of columns, got ${N}`, "invalid-argument");
    return inferComposed(bodyOf(call), call.label, call.inputs, ["Y"]);
  },
  work: ({ inputs, attrs }) => eachWithEach(inputs.A) * attrs.N,
  reference: (call) => runComposed(bodyOf(call), call.label, call.inputs, call.outputs),
});
