/** RotaryEmbedding on WASM. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { rotation } from "../shared/wasm/rotate.js";
import { RotaryEmbedding } from "./op.js";

/** Turns pairs of each head's values by the angles of their position. */
export const rotaryEmbedding: WasmKernel = rotation(
  [RotaryEmbedding],
  ({ inputs: { X, cos_cache, sin_cache, position_ids }, outputs: { Y }, attrs: { num_heads, interleaved } }) => ({
    source: X,
    output: Y,
    cos: cos_cache,
    sin: sin_cache,
    positions: position_ids,
    heads: X.shape.length === 4 ? X.shape[1] : num_heads!, // by the shape rule
    interleaved,
  }),
);
