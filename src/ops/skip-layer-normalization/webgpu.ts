/** Skip connections and normalisation on WebGPU, in one dispatch. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { normalization } from "../shared/webgpu/normalize.js";
import { SkipLayerNormalization, SkipSimplifiedLayerNormalization } from "./op.js";

/** (x − mean) / √(variance + epsilon) · gamma + beta, of x = input + skip + bias. */
export const skipLayerNormalization: WebgpuKernel = normalization(
  [SkipLayerNormalization],
  ({ inputs: { input, skip, gamma, beta, bias }, outputs, attrs: { epsilon } }) => {
    if (outputs.output === undefined) return "only the sum is asked for";
    return {
      name: "skipLayerNormalization",
      centered: true,
      source: input,
      size: input.shape.at(-1)!,
      skip,
      addend: bias,
      sum: outputs.input_skip_bias_sum,
      scale: gamma,
      bias: beta,
      output: outputs.output,
      mean: outputs.mean,
      inverse: outputs.inv_std_var,
      epsilon,
    };
  },
);

/** x / √(mean of squares + epsilon) · gamma, of x = input + skip + bias. */
export const skipSimplifiedLayerNormalization: WebgpuKernel = normalization(
  [SkipSimplifiedLayerNormalization],
  ({ inputs: { input, skip, gamma, bias }, outputs, attrs: { epsilon } }) => {
    if (outputs.output === undefined) return "only the sum is asked for";
    return {
      name: "skipRmsNormalization",
      centered: false,
      source: input,
      size: input.shape.at(-1)!,
      skip,
      addend: bias,
      sum: outputs.input_skip_bias_sum,
      scale: gamma,
      output: outputs.output,
      mean: outputs.mean,
      inverse: outputs.inv_std_var,
      epsilon,
    };
  },
);
