/** What SimplifiedLayerNormalization asks of a kernel that normalises rows: RMSNormalization with a statistic. */
import type { CallOf } from "../../graph/kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import type { RowNorm } from "../shared/rules/row-norm.js";
import { MicrosoftSimplifiedLayerNormalization, SimplifiedLayerNormalization } from "./op.js";

/** Under both domains. */
export const simplified = [SimplifiedLayerNormalization, MicrosoftSimplifiedLayerNormalization] as const;

export function simplifiedNorm({ inputs, outputs, attrs }: CallOf<(typeof simplified)[number]>): RowNorm | string {
  const { X, scale } = inputs;
  const { Y, inv_std_var: inverse } = outputs;
  if (Y === undefined) return "only statistics are asked for";
  if (attrs.stash_type === "float64") return "it is to be computed in float64";
  const axis = fromFront(attrs.axis, X.shape);
  return { centered: false, source: X, scale, output: Y, inverse, axis, epsilon: attrs.epsilon };
}
