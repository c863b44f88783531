/** Skip connections and normalisation on WASM, in one pass. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { normalization } from "../shared/wasm/normalize.js";
import { SkipLayerNormalization, SkipSimplifiedLayerNormalization } from "./op.js";

/** (x − mean) / √(variance + epsilon) · gamma + beta, of x = input + skip + bias. */
export const skipLayerNormalization: WasmKernel = normalization(
  [SkipLayerNormalization],
  ({ inputs: { input, skip, gamma, beta, bias }, outputs, attrs: { epsilon } }) => {
    if (outputs.output === undefined) return "only the sum is asked for";
    return {
      kernel: "layerNormalize",
      source: input,
      skip,
      addend: bias,
      sum: outputs.input_skip_bias_sum,
      scale: gamma,
      bias: beta,
      output: outputs.output,
      mean: outputs.mean,
      inverse: outputs.inv_std_var,
      axis: input.shape.length - 1,
      epsilon,
    };
  },
);

/** x / √(mean of squares + epsilon) · gamma, of x = input + skip + bias. */
export const skipSimplifiedLayerNormalization: WasmKernel = normalization(
  [SkipSimplifiedLayerNormalization],
  ({ inputs: { input, skip, gamma, bias }, outputs, attrs: { epsilon } }) => {
    if (outputs.output === undefined) return "only the sum is asked for";
    return {
      kernel: "rmsNormalize",
      source: input,
      skip,
      addend: bias,
      sum: outputs.input_skip_bias_sum,
      scale: gamma,
      output: outputs.output,
      mean: outputs.mean,
      inverse: outputs.inv_std_var,
      axis: input.shape.length - 1,
      epsilon,
    };
  },
);
