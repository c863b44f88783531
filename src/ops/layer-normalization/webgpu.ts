/** LayerNormalization and RMSNormalization on WebGPU: computed in float32, whatever stash_type asks for. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { isRow, normalization, rowSize } from "../shared/webgpu/normalize.js";
import { LayerNormalization, RMSNormalization } from "./op.js";

/** (X − mean) / √(variance + epsilon) · Scale + B. */
export const layerNormalization: WebgpuKernel = normalization(
  [LayerNormalization],
  ({ inputs: { X, Scale, B }, outputs: { Y, Mean, InvStdDev }, attrs: { axis: given, epsilon } }) => {
    if (Y === undefined) return "only statistics are asked for";
    const axis = given < 0 ? given + X.shape.length : given;
    if (!isRow(Scale, X.shape, axis) || (B !== undefined && !isRow(B, X.shape, axis)))
      return "scale or bias differ between rows";
    return {
      name: "layerNormalization",
      centered: true,
      source: X,
      size: rowSize(X.shape, axis),
      scale: Scale,
      bias: B,
      output: Y,
      mean: Mean,
      inverse: InvStdDev,
      epsilon,
    };
  },
);

/** X / √(mean of squares + epsilon) · scale. */
export const rmsNormalization: WebgpuKernel = normalization(
  [RMSNormalization],
  ({ inputs: { X, scale }, outputs: { Y }, attrs: { axis: given, epsilon, stash_type } }) => {
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
      epsilon,
    };
  },
);
