/** ReverseSequence: the beginning of each sequence turned round. Moves elements without looking at them. */
import { int } from "../../graph/attribute.js";
import { isKnown, shapeText } from "../../graph/dim.js";
import { knownIntegers } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { readIntegers } from "../../tensor/access.js";
import { copyView } from "../../tensor/copy.js";
import { plainTypes } from "../shared/rules/plain-types.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { sliceView } from "../slice/range.js";

/** Turns the first `sequence_lens[i]` elements along the time axis round, for each i of the batch axis. */
export const ReverseSequence = defineOp({
  name: "ReverseSequence",
  since: 10,
  types: { T: plainTypes },
  inputs: { input: tensor("T"), sequence_lens: tensor("int64") },
  outputs: { Y: tensor("T") },
  attrs: { batch_axis: int(1), time_axis: int(0) },
  infer(call) {
    const { input, sequence_lens: lengths } = call.inputs;
    const { batch_axis: batch, time_axis: time } = call.attrs;
    call.check(
      (batch === 0 && time === 1) || (batch === 1 && time === 0),
      () => `batch_axis and time_axis must be 0 and 1 or 1 and 0, got ${batch} and ${time}`,
      "invalid-argument",
    );
    checkRank(call, "sequence_lens", lengths, 1);
    const { shape } = input;
    call.check(
      shape === undefined || shape.length >= 2,
      () => `input must have at least 2 dimensions, got ${shapeText(shape)}`,
    );
    if (shape !== undefined && lengths.shape !== undefined) {
      unifyDims(call, lengths.shape[0], shape[batch], "sequence_lens needs one entry a sequence of the batch");
    }
    return { Y: { shape } };
  },
  looksAt: ["sequence_lens"],
  validate(call) {
    const steps = call.inputs.input.shape?.[call.attrs.time_axis];
    const lengths = knownIntegers(call.inputs.sequence_lens);
    if (lengths !== undefined && steps !== undefined && isKnown(steps)) checkLengths(call, lengths, steps);
  },
  reference(call) {
    const { input } = call.inputs;
    const { Y } = call.outputs;
    const { batch_axis: batch, time_axis: time } = call.attrs;
    const steps = input.shape[time];
    const lengths = readIntegers(call.inputs.sequence_lens);
    checkLengths(call, lengths, steps);
    copyView(input, Y);
    lengths.forEach((length, at) => {
      if (length < 2) return;
      const sequence = input.slice(batch, at, at + 1);
      const turned = sliceView(sequence, [{ axis: time, start: length - 1, step: -1, count: length }]);
      copyView(turned, Y.slice(batch, at, at + 1).slice(time, 0, length));
    });
  },
});

function checkLengths(call: CallContext, lengths: readonly number[], steps: number): void {
  lengths.forEach((length, at) => {
    call.check(
      length >= 0 && length <= steps,
      () => `sequence_lens[${at}] must lie in [0, ${steps}], got ${length}`,
      "invalid-argument",
    );
  });
}
