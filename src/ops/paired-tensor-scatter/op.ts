/**
 * PairedTensorScatter: the rows of a step written into two caches of one shape, at the same indices. No operator of ONNX's: the passes make it
 * of the two TensorScatters of a layer, for backends that do both at once.
 *
 *     key ──▶ TensorScatter past_key ──▶ present_key
 *     value ▶ TensorScatter past_value ▶ present_value
 */
import { int, oneOf } from "../../graph/attribute.js";
import { update } from "../../graph/effect.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { writeStep, writtenParts } from "../shared/families/cache-writes.js";
import { type BodyStep, inferComposed, runComposed, validateComposed } from "../shared/families/composed.js";
import { anyType } from "../shared/rules/types.js";

/** What decides the body. */
interface PairedCall {
  readonly inputs: { readonly write_indices: unknown };
  readonly attrs: { readonly axis: number; readonly mode: "linear" | "circular" };
}

const stepOf = (which: "key" | "value", { inputs, attrs }: PairedCall): BodyStep =>
  writeStep(which, which, { ...attrs, hasIndices: inputs.write_indices !== undefined });

const bodyOf = (call: PairedCall): readonly BodyStep[] => [stepOf("key", call), stepOf("value", call)];

/** Writes `key` into `past_key` and `value` into `past_value` at `write_indices`, along `axis`. */
export const PairedTensorScatter = defineOp({
  name: "PairedTensorScatter",
  domain: "insitu",
  since: 1,
  types: { T: anyType.filter((type) => type !== "int2" && type !== "uint2") },
  inputs: {
    past_key: tensor("T"),
    past_value: tensor("T"),
    key: tensor("T"),
    value: tensor("T"),
    write_indices: optional(tensor("int64")),
  },
  outputs: { present_key: tensor("T"), present_value: tensor("T") },
  attrs: { axis: int(-2), mode: oneOf(["linear", "circular"], "linear") },
  effects: {
    present_key: update("past_key", { along: "axis", brings: { input: "key" } }),
    present_value: update("past_value", { along: "axis", brings: { input: "value" } }),
  },
  lengths: { start: "write_indices", wraps: ({ mode }) => mode === "circular" },
  looksAt: ["write_indices"],
  validate: (call) => validateComposed(call, bodyOf),
  overwrites(call) {
    const { write_indices: indices } = call.inputs;
    const parts = (which: "key" | "value"): ReturnType<typeof writtenParts> => {
      const [past, rows] = [call.inputs[`past_${which}`], call.inputs[which].shape];
      return writtenParts(stepOf(which, call), call.label, past, rows, indices, call.outputs[`present_${which}`]);
    };
    return { present_key: parts("key"), present_value: parts("value") };
  },
  infer: (call) => inferComposed(bodyOf(call), call.label, call.inputs, ["present_key", "present_value"]),
  reference: (call) => runComposed(bodyOf(call), call.label, call.inputs, call.outputs),
});
