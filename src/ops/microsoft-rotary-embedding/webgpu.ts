/** onnxruntime's RotaryEmbedding on WebGPU. */
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { headsOf } from "../shared/webgpu/heads.js";
import { acceptsRotation, rotationDispatch } from "../shared/webgpu/rotate.js";
import { MicrosoftRotaryEmbedding } from "./op.js";

/** Turns pairs of each head's values by the angles of their position, which is always given. */
export const microsoftRotaryEmbedding: WebgpuKernel = webgpuKernel([MicrosoftRotaryEmbedding], {
  accepts: ({ inputs: { input, cos_cache, sin_cache }, outputs: { output } }) =>
    acceptsRotation(input, output, [cos_cache, sin_cache]),
  record({ inputs, outputs: { output }, attrs: { num_heads: given, interleaved } }, recorder) {
    const { input, cos_cache: cos, sin_cache: sin, position_ids: indices } = inputs;
    if (output.place.size === 0) return;
    const heads = given > 0 ? given : input.shape.at(-1)! / Math.max(1, 2 * cos.shape[1]);
    const source = headsOf(input, heads);
    const each = indices.shape.length === 2;
    const positions = { indices, sample: each ? source.rows : 0, token: each ? 1 : 0, counts: !each, add: 0 };
    const target = headsOf(output, source.heads);
    recorder.dispatch(rotationDispatch({ source, output: target, cos, sin, positions, interleaved }, recorder.device));
  },
});
