/** SimplifiedLayerNormalization on WASM. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { normalization } from "../shared/wasm/normalize.js";
import { simplified, simplifiedNorm } from "./norm.js";

/** X / √(mean of squares + epsilon) · scale. */
export const simplifiedLayerNormalization: WasmKernel = normalization(simplified, simplifiedNorm);
