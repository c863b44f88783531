/** What LayerNormalization and RMSNormalization ask of a kernel that normalises rows: computed in float32, whatever stash_type asks for. */
import type { CallOf } from "../../graph/kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import type { RowNorm } from "../shared/rules/row-norm.js";
import type { LayerNormalization, RMSNormalization } from "./op.js";

export function layerNorm({ inputs, outputs, attrs }: CallOf<typeof LayerNormalization>): RowNorm | string {
  const { X, Scale, B } = inputs;
  const { Y, Mean, InvStdDev } = outputs;
  if (Y === undefined) return "only statistics are asked for";
  const axis = fromFront(attrs.axis, X.shape);
  const { epsilon } = attrs;
  return { centered: true, source: X, scale: Scale, bias: B, output: Y, mean: Mean, inverse: InvStdDev, axis, epsilon };
}

export function rmsNorm({ inputs, outputs, attrs }: CallOf<typeof RMSNormalization>): RowNorm | string {
  const { X, scale } = inputs;
  if (attrs.stash_type === "float64") return "it is to be computed in float64";
  const axis = fromFront(attrs.axis, X.shape);
  return { centered: false, source: X, scale, output: outputs.Y, axis, epsilon: attrs.epsilon };
}
