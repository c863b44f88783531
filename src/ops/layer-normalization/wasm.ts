/** LayerNormalization and RMSNormalization on WASM: computed in float32, whatever stash_type asks for. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import { normalization } from "../shared/wasm/normalize.js";
import { LayerNormalization, RMSNormalization } from "./op.js";

/** (X − mean) / √(variance + epsilon) · Scale + B. */
export const layerNormalization: WasmKernel = normalization(
  [LayerNormalization],
  ({ inputs: { X, Scale, B }, outputs: { Y, Mean, InvStdDev }, attrs: { axis, epsilon } }) => {
    if (Y === undefined) return "only statistics are asked for";
    return {
      kernel: "layerNormalize",
      source: X,
      scale: Scale,
      bias: B,
      output: Y,
      mean: Mean,
      inverse: InvStdDev,
      axis: fromFront(axis, X.shape),
      epsilon,
    };
  },
);

/** X / √(mean of squares + epsilon) · scale. */
export const rmsNormalization: WasmKernel = normalization(
  [RMSNormalization],
  ({ inputs: { X, scale }, outputs: { Y }, attrs: { axis, epsilon, stash_type } }) => {
    if (stash_type === "float64") return "it is to be computed in float64";
    return { kernel: "rmsNormalize", source: X, scale, output: Y, axis: fromFront(axis, X.shape), epsilon };
  },
);
