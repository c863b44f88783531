/** Skip connections and normalisation on WebGPU, in one pass. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { rowNormalization } from "../shared/webgpu/normalize.js";
import { skipNorm } from "./norm.js";
import { SkipLayerNormalization, SkipSimplifiedLayerNormalization } from "./op.js";

/** (x − mean) / √(variance + epsilon) · gamma + beta, of x = input + skip + bias. */
export const skipLayerNormalization: WebgpuKernel = rowNormalization([SkipLayerNormalization], skipNorm);

/** x / √(mean of squares + epsilon) · gamma, of x = input + skip + bias. */
export const skipSimplifiedLayerNormalization: WebgpuKernel = rowNormalization(
  [SkipSimplifiedLayerNormalization],
  skipNorm,
);
