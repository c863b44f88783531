/** Skip connections and normalisation on WASM, in one pass. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { normalization } from "../shared/wasm/normalize.js";
import { skipNorm } from "./norm.js";
import { SkipLayerNormalization, SkipSimplifiedLayerNormalization } from "./op.js";

/** (x − mean) / √(variance + epsilon) · gamma + beta, of x = input + skip + bias. */
export const skipLayerNormalization: WasmKernel = normalization([SkipLayerNormalization], skipNorm);

/** x / √(mean of squares + epsilon) · gamma, of x = input + skip + bias. */
export const skipSimplifiedLayerNormalization: WasmKernel = normalization([SkipSimplifiedLayerNormalization], skipNorm);
