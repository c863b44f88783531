/**
 * SharedProducts: products of one value with several weights quantized in blocks. No operator of ONNX's: the passes make it of MatMulNBits
 * nodes that read the same value, for backends that prepare that value once and share the columns of all products at once.
 *
 *     A ─┬▶ MatMulNBits B1 ──▶ Y1
 *        ├▶ MatMulNBits B2 ──▶ Y2
 *        ╰▶ MatMulNBits B3 ──▶ Y3, if there is a third
 */
import { int, required } from "../../graph/attribute.js";
import { int as intValue } from "../../graph/attribute-values.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { MatMulNBits } from "../matmul-nbits/op.js";
import { type BodyStep, inferComposed, runComposed, step } from "../shared/families/composed.js";
import { eachWithEach } from "../shared/rules/work.js";
import { placesOf, type SharedCall } from "./places.js";

const floats = ["float32", "float16", "bfloat16"] as const;

function bodyOf(call: SharedCall): readonly BodyStep[] {
  const { inputs, attrs } = call;
  const { K, bits, block_size, accuracy_level } = attrs;
  const common = {
    K: intValue(K),
    bits: intValue(bits),
    block_size: intValue(block_size),
    accuracy_level: intValue(accuracy_level),
  };
  return placesOf(call).map((at) => {
    const given = (name: "zero_points" | "bias"): string | undefined =>
      inputs[`${name}${at}`] === undefined ? undefined : `${name}${at}`;
    const operands = ["A", `B${at}`, `scales${at}`, given("zero_points"), undefined, given("bias")];
    return step(MatMulNBits, operands, [`Y${at}`], { ...common, N: intValue(attrs[`N${at}`]) });
  });
}

/** A · dequantized(B)ᵀ + bias for each of two or three B. */
export const SharedProducts = defineOp({
  name: "SharedProducts",
  domain: "insitu",
  since: 1,
  types: { T: floats, W: ["uint8"], Z: [...floats, "uint8"] },
  inputs: {
    A: tensor("T"),
    B1: tensor("W"),
    scales1: tensor("T"),
    zero_points1: optional(tensor("Z")),
    bias1: optional(tensor("T")),
    B2: tensor("W"),
    scales2: tensor("T"),
    zero_points2: optional(tensor("Z")),
    bias2: optional(tensor("T")),
    B3: optional(tensor("W")),
    scales3: optional(tensor("T")),
    zero_points3: optional(tensor("Z")),
    bias3: optional(tensor("T")),
  },
  outputs: { Y1: tensor("T"), Y2: tensor("T"), Y3: optional(tensor("T")) },
  attrs: {
    K: required(int()),
    N1: required(int()),
    N2: required(int()),
    /** 0 where there are two products. */
    N3: int(0),
    accuracy_level: int(0),
    bits: int(4),
    block_size: required(int()),
  },

  infer(call) {
    const { B3, scales3 } = call.inputs;
    const isWhole = (B3 === undefined) === (scales3 === undefined) && (B3 === undefined) === (call.attrs.N3 === 0);
    call.check(isWhole, "B3, scales3 and N3 are given together, or none of them", "invalid-graph");
    const names = placesOf(call).map((at) => `Y${at}` as const);
    return inferComposed(bodyOf(call), call.label, call.inputs, names);
  },
  work: ({ inputs, attrs }) => eachWithEach(inputs.A) * (attrs.N1 + attrs.N2 + attrs.N3),
  reference: (call) => runComposed(bodyOf(call), call.label, call.inputs, call.outputs),
});
