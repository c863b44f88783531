/** SimplifiedLayerNormalization on WASM, under both domains. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import { normalization } from "../shared/wasm/normalize.js";
import { MicrosoftSimplifiedLayerNormalization, SimplifiedLayerNormalization } from "./op.js";

/** X / √(mean of squares + epsilon) · scale. */
export const simplifiedLayerNormalization: WasmKernel = normalization(
  [SimplifiedLayerNormalization, MicrosoftSimplifiedLayerNormalization],
  ({ inputs: { X, scale }, outputs: { Y, inv_std_var }, attrs: { axis, epsilon, stash_type } }) => {
    if (Y === undefined) return "only statistics are asked for";
    if (stash_type === "float64") return "it is to be computed in float64";
    return {
      kernel: "rmsNormalize",
      source: X,
      scale,
      output: Y,
      inverse: inv_std_var,
      axis: fromFront(axis, X.shape),
      epsilon,
    };
  },
);
