/** HannWindow, HammingWindow and BlackmanWindow: sums of cosines, as signals are seen through before a transform. */
import { elementType, flag } from "../../graph/attribute.js";
import { isKnown, unknownDim } from "../../graph/dim.js";
import { defineOp, tensor } from "../../graph/op.js";
import { writeNumbers } from "../../tensor/access.js";
import { scalarOf } from "../shared/rules/operands.js";
import { indexTypes, numeric } from "../shared/rules/types.js";
import { float64Scratch } from "../shared/loops/scratch.js";

/** A window whose value at angle a is the sum of factors[i] · cos(i · a). */
function windowOp(name: string, factors: readonly number[]) {
  return defineOp({
    name,
    since: 17,
    types: { T1: indexTypes, T2: numeric },
    inputs: { size: tensor("T1") },
    outputs: { output: tensor("T2") },
    attrs: { output_datatype: elementType("float32"), periodic: flag(true) },
    infer(call) {
      const size = scalarOf(call, "size", call.inputs.size) ?? unknownDim();
      call.check(!isKnown(size) || size >= 0, () => `size must not be negative, got ${size}`, "invalid-argument");
      return { output: { type: call.attrs.output_datatype, shape: [size] } };
    },
    reference({ outputs: { output }, attrs: { periodic } }) {
      const { size } = output;
      const values = float64Scratch(size);
      const period = periodic ? size : size - 1;
      for (let at = 0; at < size; at++) {
        const angle = (2 * Math.PI * at) / period;
        // The one element of a window that is not periodic is its middle.
        values[at] =
          period === 0 ? 1 : factors.reduceRight((sum, factor, index) => sum + factor * Math.cos(index * angle), 0);
      }
      writeNumbers(output, values);
    },
  });
}

/** 0 at its ends, 1 in the middle. */
export const HannWindow = windowOp("HannWindow", [0.5, -0.5]);

/** Nearly 0 at its ends. */
export const HammingWindow = windowOp("HammingWindow", [25 / 46, -21 / 46]);

/** Narrower, with one cosine more. */
export const BlackmanWindow = windowOp("BlackmanWindow", [0.42, -0.5, 0.08]);
