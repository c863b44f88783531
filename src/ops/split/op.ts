/** Split: one tensor cut into several along an axis. Moves elements without looking at them. */
import { int, ints } from "../../graph/attribute.js";
import { type Dim, isKnown, unknownDim } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, type OutputFact, tensor, variadic } from "../../graph/op.js";
import { readIntegers } from "../../tensor/access.js";
import { copyView } from "../../tensor/copy.js";
import type { View } from "../../tensor/view.js";
import { contentsOf } from "../shared/rules/contents.js";
import { listOf } from "../shared/rules/operands.js";
import { classicTypes, plainTypes } from "../shared/rules/plain-types.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { type PartRule, partsEqual, partsGiven, partsNearlyEqual } from "./parts.js";

/** Facts of the parts that the node's outputs take; without a rule their lengths are unknown. */
function splitFacts(
  call: CallContext & { readonly outputCount: number },
  input: Fact,
  axisGiven: number,
  rule: PartRule | undefined,
): OutputFact[] {
  const { outputCount: count } = call;
  const { shape } = input;
  if (shape === undefined) return Array.from({ length: count }, () => ({}));
  const axis = normalizeAxis(call, axisGiven, shape.length);
  const parts = rule?.(shape[axis]);
  call.check(
    parts === undefined || parts.length >= count,
    () => `the node has ${count} outputs, but there are ${parts?.length} parts`,
  );
  const contents = shape.length === 1 ? contentsOf(input) : undefined;
  let start = 0; // NaN behind a part of unknown length
  return Array.from({ length: count }, (_, at) => {
    const part = parts?.[at] ?? unknownDim();
    const end = isKnown(part) ? start + part : NaN;
    const integers = Number.isNaN(end) ? undefined : contents?.slice(start, end);
    start = end;
    return { shape: shape.with(axis, part), integers };
  });
}

/** Copies each part to its output; an output that is not asked for is undefined. */
function splitView(input: View, outputs: readonly (View | undefined)[], axisGiven: number, rule: PartRule): void {
  const axis = axisGiven < 0 ? axisGiven + input.rank : axisGiven;
  const parts = rule(input.shape[axis]) as readonly number[];
  let start = 0;
  outputs.forEach((output, at) => {
    if (output !== undefined) copyView(input.slice(axis, start, start + parts[at]), output);
    start += parts[at];
  });
}

/** Cuts a tensor into parts whose lengths are an attribute, or equal. */
export const Split2 = defineOp({
  name: "Split",
  since: 2,
  types: { T: classicTypes },
  inputs: { input: tensor("T") },
  outputs: { outputs: variadic(tensor("T")) },
  attrs: { axis: int(0), split: ints() },
  infer(call) {
    const { axis, split } = call.attrs;
    const rule = split === undefined ? partsEqual(call, call.outputCount) : partsGiven(call, split);
    return { outputs: splitFacts(call, call.inputs.input, axis, rule) };
  },
  reference(call) {
    const { axis, split } = call.attrs;
    const { outputs } = call.outputs;
    splitView(
      call.inputs.input,
      outputs,
      axis,
      split === undefined ? partsEqual(call, outputs.length) : partsGiven(call, split),
    );
  },
});

/** Cuts a tensor into parts whose lengths are an operand, or equal. */
export const Split13 = defineOp({
  name: "Split",
  since: 13,
  types: { T: plainTypes },
  inputs: { input: tensor("T"), split: optional(tensor("int64")) },
  outputs: { outputs: variadic(tensor("T")) },
  attrs: { axis: int(0) },
  infer(call) {
    const { input, split } = call.inputs;
    const parts = listOf(call, "split", split);
    const given = parts === undefined ? undefined : partsGiven(call, parts);
    return {
      outputs: splitFacts(
        call,
        input,
        call.attrs.axis,
        split === undefined ? partsEqual(call, call.outputCount) : given,
      ),
    };
  },
  reference(call) {
    const { input, split } = call.inputs;
    const { outputs } = call.outputs;
    const rule = split === undefined ? partsEqual(call, outputs.length) : partsGiven(call, readIntegers(split));
    splitView(input, outputs, call.attrs.axis, rule);
  },
});

/** The rule of Split-18: either lengths or a number of parts, and not both. */
function checkChoice(
  call: CallContext & { readonly outputCount: number },
  hasSplit: boolean,
  count: number | undefined,
): void {
  call.check(!(hasSplit && count !== undefined), "takes either split or num_outputs, got both", "invalid-argument");
  call.check(hasSplit || count !== undefined, "needs either split or num_outputs, got neither", "invalid-argument");
  if (count === undefined) return;
  call.check(
    count >= 1 && count >= call.outputCount && count <= 2 ** 20,
    () => `num_outputs must be the node's number of outputs, ${call.outputCount}, got ${count}`,
    "invalid-argument",
  );
}

/** Cuts a tensor into parts whose lengths are an operand, or into `num_outputs` parts of which the last may be shorter. */
export const Split18 = defineOp({
  name: "Split",
  since: 18,
  types: { T: plainTypes },
  inputs: { input: tensor("T"), split: optional(tensor("int64")) },
  outputs: { outputs: variadic(tensor("T")) },
  attrs: { axis: int(0), num_outputs: int() },
  infer(call) {
    const { input, split } = call.inputs;
    const { axis, num_outputs: count } = call.attrs;
    checkChoice(call, split !== undefined, count);
    const parts: readonly Dim[] | undefined = listOf(call, "split", split);
    const given = parts === undefined ? undefined : partsGiven(call, parts);
    return { outputs: splitFacts(call, input, axis, count === undefined ? given : partsNearlyEqual(call, count)) };
  },
  reference(call) {
    const { axis, num_outputs: count } = call.attrs;
    const { split, input } = call.inputs;
    const rule = split === undefined ? partsNearlyEqual(call, count!) : partsGiven(call, readIntegers(split));
    splitView(input, call.outputs.outputs, axis, rule);
  },
});
