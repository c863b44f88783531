/** LayerNormalization and RMSNormalization on WASM: computed in float32, whatever stash_type asks for. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { normalizable, type Normalization, recordNormalization } from "../wasm-normalize.js";

const fromFront = (axis: number, rank: number): number => (axis < 0 ? axis + rank : axis);

const layerOf = ({ inputs: [x, scale, bias], outputs: [y, mean, inverse], attrs }: KernelCall): Normalization => ({
  kernel: "layerNormalize",
  source: x!,
  scale: scale!,
  bias,
  output: y!,
  mean,
  inverse,
  axis: fromFront(attrs["axis"] as number, x!.shape.length),
  epsilon: attrs["epsilon"] as number,
});

const rootOf = ({ inputs: [x, scale], outputs: [y], attrs }: KernelCall): Normalization => ({
  kernel: "rmsNormalize",
  source: x!,
  scale: scale!,
  output: y!,
  axis: fromFront(attrs["axis"] as number, x!.shape.length),
  epsilon: attrs["epsilon"] as number,
});

/** (X − mean) / √(variance + epsilon) · Scale + B. */
export const layerNormalization: WasmKernel = {
  op: "LayerNormalization",
  accepts: (call) => (call.outputs[0] === undefined ? "only statistics are asked for" : normalizable(layerOf(call))),
  record: (call, recorder) => recordNormalization(recorder, layerOf(call)),
};

/** X / √(mean of squares + epsilon) · scale. */
export const rmsNormalization: WasmKernel = {
  op: "RMSNormalization",
  accepts: (call) =>
    call.attrs["stash_type"] === "float64" ? "it is to be computed in float64" : normalizable(rootOf(call)),
  record: (call, recorder) => recordNormalization(recorder, rootOf(call)),
};
