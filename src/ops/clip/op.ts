/** Clip: limits to an interval. Its bounds are attributes up to opset 10 and operands from 11 on. */
import { float } from "../../graph/attribute.js";
import { isKnown, shapeText } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { isWide, readBigInts, readNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { mapElements } from "../shared/loops/elementwise.js";
import { classicFloats } from "../shared/rules/plain-types.js";
import { numeric } from "../shared/rules/types.js";

const largestFloat32 = 3.4028234663852886e38;

/** A bound is one element: a scalar, or a vector of length 1 as older exporters write it. */
function checkBound(call: CallContext, name: string, bound: Fact | undefined): void {
  const shape = bound?.shape;
  if (shape === undefined) return;
  const single = shape.length === 0 || (shape.length === 1 && (!isKnown(shape[0]) || shape[0] === 1));
  call.check(single, () => `${name} must be a scalar, got ${bound!.type}${shapeText(shape)}`);
}

/** Limits the input to [min, max]; where min is above max, everything becomes max. */
export const Clip = defineOp({
  name: "Clip",
  since: 11,
  types: { T: numeric },
  inputs: { input: tensor("T"), min: optional(tensor("T")), max: optional(tensor("T")) },
  outputs: { output: tensor("T") },
  effects: { output: reuse("input") },

  infer(call) {
    checkBound(call, "min", call.inputs.min);
    checkBound(call, "max", call.inputs.max);
    return { output: { shape: call.inputs.input.shape } };
  },

  reference({ inputs: { input, min, max }, outputs: { output } }) {
    const wide = isWide(input.type);
    const numberOf = (bound: View | undefined, absent: number): number =>
      bound === undefined || wide ? absent : readNumbers(bound)[0];
    const bigintOf = (bound: View | undefined): bigint | undefined =>
      bound !== undefined && wide ? readBigInts(bound)[0] : undefined;
    // A bound that is left out does not limit, infinities included.
    const [low, high] = [numberOf(min, -Infinity), numberOf(max, Infinity)];
    const [lowest, highest] = [bigintOf(min), bigintOf(max)];
    mapElements(input, output, {
      number: (x) => Math.min(Math.max(x, low), high),
      bigint(x) {
        const raised = lowest !== undefined && x < lowest ? lowest : x;
        return highest !== undefined && raised > highest ? highest : raised;
      },
    });
  },
});

/** Limits the input to attributes. */
export const Clip6 = defineOp({
  name: "Clip",
  since: 6,
  types: { T: classicFloats },
  inputs: { input: tensor("T") },
  outputs: { output: tensor("T") },
  attrs: { min: float(-largestFloat32), max: float(largestFloat32) },
  effects: { output: reuse("input") },
  infer: ({ inputs }) => ({ output: { shape: inputs.input.shape } }),
  reference: ({ inputs, outputs, attrs }) =>
    mapElements(inputs.input, outputs.output, { number: (x) => Math.min(Math.max(x, attrs.min), attrs.max) }),
});
