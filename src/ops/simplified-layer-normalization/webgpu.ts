/** SimplifiedLayerNormalization on WebGPU: RMSNormalization's kernel. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { isRow, normalization, rowSize } from "../shared/webgpu/normalize.js";
import { MicrosoftSimplifiedLayerNormalization, SimplifiedLayerNormalization } from "./op.js";

/** X / √(mean of squares + epsilon) · scale. */
export const simplifiedLayerNormalization: WebgpuKernel = normalization(
  [SimplifiedLayerNormalization, MicrosoftSimplifiedLayerNormalization],
  ({ inputs: { X, scale }, outputs: { Y, inv_std_var }, attrs: { axis: given, epsilon, stash_type } }) => {
    if (Y === undefined) return "only statistics are asked for";
    if (stash_type === "float64") return "it is to be computed in float64";
    const axis = given < 0 ? given + X.shape.length : given;
    if (!isRow(scale, X.shape, axis)) return "scale differs between rows";
    return {
      name: "rmsNormalization",
      centered: false,
      source: X,
      size: rowSize(X.shape, axis),
      scale,
      output: Y,
      inverse: inv_std_var,
      epsilon,
    };
  },
);
