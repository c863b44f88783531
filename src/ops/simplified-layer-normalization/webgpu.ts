/** SimplifiedLayerNormalization on WebGPU. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { rowNormalization } from "../shared/webgpu/normalize.js";
import { simplified, simplifiedNorm } from "./norm.js";

/** X / √(mean of squares + epsilon) · scale. */
export const simplifiedLayerNormalization: WebgpuKernel = rowNormalization(simplified, simplifiedNorm);
