/** Skip connections and normalisation on WASM, in one pass. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { normalizable, type Normalization, recordNormalization } from "../wasm-normalize.js";

function jobOf({ inputs, outputs, attrs }: KernelCall, simplified: boolean): Normalization {
  const [input, skip, gamma, ...rest] = inputs;
  const [beta, bias] = simplified ? [undefined, rest[0]] : rest;
  const [output, mean, inverse, sum] = outputs;
  return {
    kernel: simplified ? "rmsNormalize" : "layerNormalize",
    source: input!,
    skip,
    addend: bias,
    sum,
    scale: gamma!,
    bias: beta,
    output: output!,
    mean,
    inverse,
    axis: input!.shape.length - 1,
    epsilon: attrs["epsilon"] as number,
  };
}

const skipping = (op: string, simplified: boolean): WasmKernel => ({
  op,
  domain: "com.microsoft",
  accepts: (call) =>
    call.outputs[0] === undefined ? "only the sum is asked for" : normalizable(jobOf(call, simplified)),
  record: (call, recorder) => recordNormalization(recorder, jobOf(call, simplified)),
});

/** (x − mean) / √(variance + epsilon) · gamma + beta, of x = input + skip + bias. */
export const skipLayerNormalization: WasmKernel = skipping("SkipLayerNormalization", false);

/** x / √(mean of squares + epsilon) · gamma, of x = input + skip + bias. */
export const skipSimplifiedLayerNormalization: WasmKernel = skipping("SkipSimplifiedLayerNormalization", true);
