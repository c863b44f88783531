/** What both operators ask of a kernel that normalises rows. */
import type { CallOf } from "../../graph/kernel.js";
import type { RowNorm } from "../shared/rules/row-norm.js";
import type { SkipLayerNormalization, SkipSimplifiedLayerNormalization } from "./op.js";

/** The one with beta is centred. */
export function skipNorm({
  inputs,
  outputs,
  attrs: { epsilon },
}: CallOf<typeof SkipLayerNormalization> | CallOf<typeof SkipSimplifiedLayerNormalization>): RowNorm | string {
  const { input: source, skip, gamma: scale, bias: addend } = inputs;
  const { output, mean, inv_std_var: inverse, input_skip_bias_sum: sum } = outputs;
  if (output === undefined) return "only the sum is asked for";
  const own = "beta" in inputs ? { centered: true, bias: inputs.beta } : { centered: false };
  return { ...own, source, skip, addend, sum, scale, output, mean, inverse, axis: source.shape.length - 1, epsilon };
}
