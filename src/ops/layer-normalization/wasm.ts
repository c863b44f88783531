/** LayerNormalization and RMSNormalization on WASM. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { normalization } from "../shared/wasm/normalize.js";
import { layerNorm, rmsNorm } from "./norm.js";
import { LayerNormalization, RMSNormalization } from "./op.js";

/** (X − mean) / √(variance + epsilon) · Scale + B. */
export const layerNormalization: WasmKernel = normalization([LayerNormalization], layerNorm);

/** X / √(mean of squares + epsilon) · scale. */
export const rmsNormalization: WasmKernel = normalization([RMSNormalization], rmsNorm);
