/** RotaryEmbedding on WebGPU. */
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { headsOf } from "../shared/webgpu/heads.js";
import { acceptsRotation, rotationDispatch } from "../shared/webgpu/rotate.js";
import { RotaryEmbedding } from "./op.js";

/** Turns pairs of each head's values by the angles of their position. */
export const rotaryEmbedding: WebgpuKernel = webgpuKernel([RotaryEmbedding], {
  accepts: ({ inputs: { X, cos_cache, sin_cache }, outputs: { Y } }) => acceptsRotation(X, Y, [cos_cache, sin_cache]),
  record({ inputs, outputs: { Y }, attrs: { num_heads, interleaved } }, recorder) {
    const { X, cos_cache: cos, sin_cache: sin, position_ids: indices } = inputs;
    if (Y.place.size === 0) return;
    const source = headsOf(X, num_heads ?? 1);
    const positions = indices && { indices, sample: source.rows, token: 1, counts: false, add: 0 };
    const output = headsOf(Y, source.heads);
    recorder.dispatch(rotationDispatch({ source, output, cos, sin, positions, interleaved }, recorder.device));
  },
});
