/** LayerNormalization and RMSNormalization on WebGPU. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { rowNormalization } from "../shared/webgpu/normalize.js";
import { layerNorm, rmsNorm } from "./norm.js";
import { LayerNormalization, RMSNormalization } from "./op.js";

/** (X − mean) / √(variance + epsilon) · Scale + B. */
export const layerNormalization: WebgpuKernel = rowNormalization([LayerNormalization], layerNorm);

/** X / √(mean of squares + epsilon) · scale. */
export const rmsNormalization: WebgpuKernel = rowNormalization([RMSNormalization], rmsNorm);
