/** onnxruntime's RotaryEmbedding on WASM. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { rotation } from "../shared/wasm/rotate.js";
import { MicrosoftRotaryEmbedding } from "./op.js";

/** Turns pairs of each head's values by the angles of their position, which is always given. */
export const microsoftRotaryEmbedding: WasmKernel = rotation(
  [MicrosoftRotaryEmbedding],
  ({ inputs: { input, position_ids, cos_cache: cos, sin_cache: sin }, outputs: { output }, attrs }) => {
    const { num_heads: given, interleaved } = attrs;
    const { shape } = input;
    const heads = shape.length === 4 ? shape[1] : given > 0 ? given : shape[2] / Math.max(1, 2 * cos.shape[1]);
    return { source: input, output, cos, sin, positions: position_ids, heads, interleaved };
  },
);
