/** Dropout: the operand itself when a model is used, elements dropped by chance when it is trained. */
import { float, int } from "../../graph/attribute.js";
import { reuse, view } from "../../graph/effect.js";
import { type CallContext, defineOp, laterOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { checkOneElement } from "../shared/rules/operands.js";
import { classicFloats } from "../shared/rules/plain-types.js";
import { copyUnlessShared } from "../shared/loops/share.js";
import { float8s, floats } from "../shared/rules/types.js";

/** Hands on the data with a mask of ones, as far as they are asked for: nothing is dropped. */
function keepAll(data: View, output: View | undefined, mask: View | undefined): void {
  if (output !== undefined) copyUnlessShared(data, output);
  if (mask !== undefined) writeNumbers(mask, new Uint8Array(mask.size).fill(1));
}

/** Hands on `data`; the mask is of its type. */
export const Dropout7 = defineOp({
  name: "Dropout",
  since: 7,
  types: { T: classicFloats },
  inputs: { data: tensor("T") },
  outputs: { output: tensor("T"), mask: optional(tensor("T")) },
  attrs: { ratio: float(0.5) },
  effects: { output: view("data") },
  infer: ({ inputs: { data } }) => ({ output: { shape: data.shape }, mask: { shape: data.shape } }),
  reference: ({ inputs, outputs }) => keepAll(inputs.data, outputs.output, outputs.mask),
});

/** Hands on `data`; the mask is of bools. */
export const Dropout10 = laterOp(Dropout7, {
  since: 10,
  outputs: { output: tensor("T"), mask: optional(tensor("bool")) },
});

/** Drops each element with the probability `ratio` and scales the others up, if `training_mode` is true; else hands on `data`. */
export const Dropout12 = defineOp({
  name: "Dropout",
  since: 12,
  types: { T: [...floats, ...float8s], T1: [...floats, ...float8s] },
  inputs: { data: tensor("T"), ratio: optional(tensor("T1")), training_mode: optional(tensor("bool")) },
  outputs: { output: tensor("T"), mask: optional(tensor("bool")) },
  attrs: { seed: int() },
  effects: { output: reuse("data") },
  random: true,
  infer(call) {
    const { data, ratio, training_mode: training } = call.inputs;
    checkOneElement(call, "ratio", ratio);
    checkOneElement(call, "training_mode", training);
    return { output: { shape: data.shape }, mask: { shape: data.shape } };
  },
  looksAt: ["ratio", "training_mode"],
  validate(call) {
    const { ratio, training_mode: training } = call.inputs;
    if (ratio?.constant !== undefined && training?.constant !== undefined)
      checkRatio(call, readNumbers(ratio.constant)[0], readNumbers(training.constant)[0] !== 0);
  },
  reference(call) {
    const { data, ratio: given, training_mode: training } = call.inputs;
    const { output, mask } = call.outputs;
    const ratio = given === undefined ? 0.5 : readNumbers(given)[0];
    if (training === undefined || readNumbers(training)[0] === 0 || ratio === 0) {
      keepAll(data, output, mask);
      return;
    }
    checkRatio(call, ratio, true);
    const next = call.random(call.attrs.seed);
    const kept = Uint8Array.from({ length: data.size }, () => (next() >= ratio ? 1 : 0));
    const scale = 1 / (1 - ratio);
    const scaled = Float64Array.from(readNumbers(data), (value, at) => kept[at] * value * scale);
    if (call.wants("output")) writeNumbers(output, scaled);
    if (mask !== undefined) writeNumbers(mask, kept);
  },
});

function checkRatio(call: CallContext, ratio: number, training: boolean): void {
  call.check(
    !training || (ratio >= 0 && ratio < 1),
    () => `ratio must lie in [0, 1), got ${ratio}`,
    "invalid-argument",
  );
}
