/** SimplifiedLayerNormalization on WASM, under both domains. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { normalizable, type Normalization, recordNormalization } from "../wasm-normalize.js";

const jobOf = ({ inputs: [x, scale], outputs: [y, inverse], attrs }: KernelCall): Normalization => {
  const axis = attrs["axis"] as number;
  return {
    kernel: "rmsNormalize",
    source: x!,
    scale: scale!,
    output: y!,
    inverse,
    axis: axis < 0 ? axis + x!.shape.length : axis,
    epsilon: attrs["epsilon"] as number,
  };
};

const under = (domain: string): WasmKernel => ({
  op: "SimplifiedLayerNormalization",
  domain,
  accepts(call) {
    if (call.outputs[0] === undefined) return "only statistics are asked for";
    if (call.attrs["stash_type"] === "float64") return "it is to be computed in float64";
    return normalizable(jobOf(call));
  },
  record: (call, recorder) => recordNormalization(recorder, jobOf(call)),
});

/** X / √(mean of squares + epsilon) · scale. */
export const simplifiedLayerNormalization: WasmKernel = under("");

/** The same under onnxruntime's domain. */
export const microsoftSimplifiedLayerNormalization: WasmKernel = under("com.microsoft");
