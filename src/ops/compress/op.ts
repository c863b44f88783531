/** Compress: slices picked by a mask. Moves elements without looking at them. */
import { int } from "../../graph/attribute.js";
import { isKnown, unknownDim } from "../../graph/dim.js";
import { knownIntegers, knownSize } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { readIntegers } from "../../tensor/access.js";
import { contiguous, copyView } from "../../tensor/copy.js";
import { plainTypes } from "../shared/rules/plain-types.js";
import { checkRank, normalizeAxis } from "../shared/rules/shapes.js";

/** The slices of `input` along `axis` (or its elements) where `condition` is true; what lies beyond the condition is left out. */
export const Compress = defineOp({
  name: "Compress",
  since: 9,
  types: { T: plainTypes },
  inputs: { input: tensor("T"), condition: tensor("bool") },
  outputs: { output: tensor("T") },
  attrs: { axis: int() },
  infer(call) {
    const { input, condition } = call.inputs;
    checkRank(call, "condition", condition, 1);
    call.check(
      input.shape === undefined || input.shape.length > 0,
      "input must have at least 1 dimension, got a scalar",
    );
    if (call.attrs.axis === undefined) return { output: { shape: [unknownDim()] } };
    if (input.shape === undefined) return {};
    return {
      output: { shape: input.shape.with(normalizeAxis(call, call.attrs.axis, input.shape.length), unknownDim()) },
    };
  },
  looksAt: ["condition"],
  validate(call) {
    const { input, condition } = call.inputs;
    const { axis } = call.attrs;
    const mask = knownIntegers(condition);
    const size = axis === undefined ? knownSize(input) : input.shape?.at(axis);
    if (mask !== undefined && size !== undefined && isKnown(size)) checkMask(call, mask, size);
  },
  reference(call) {
    const { input, condition } = call.inputs;
    const { axis: given } = call.attrs;
    const source = given === undefined ? contiguous(input).reshape([input.size]) : input;
    const axis = given === undefined ? 0 : given < 0 ? given + input.rank : given;
    const mask = readIntegers(condition);
    checkMask(call, mask, source.shape[axis]);
    let count = 0;
    for (let at = 0; at < mask.length; at++) if (mask[at] !== 0) count++;
    const output = call.allocate("output", source.shape.with(axis, count));
    for (let from = 0, to = 0; to < count; from++) {
      if (mask[from] === 0) continue;
      copyView(source.slice(axis, from, from + 1), output.slice(axis, to, to + 1));
      to++;
    }
  },
});

/** Fails where the condition picks a slice that is not there. */
function checkMask(call: CallContext, mask: readonly number[], size: number): void {
  const beyond = mask.findIndex((on, at) => at >= size && on !== 0);
  call.check(
    beyond < 0,
    () => `condition[${beyond}] is true, but there are only ${size} slices to pick from`,
    "invalid-argument",
  );
}
