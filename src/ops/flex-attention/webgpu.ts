/** FlexAttention on WebGPU where no subgraph changes its scores or probabilities: attention over all keys, in float32. */
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { acceptsAttention, recordAttention } from "../shared/webgpu/attention.js";
import { acceptsRows, headsOf } from "../shared/webgpu/heads.js";
import { FlexAttention } from "./op.js";

/** Softmax of the scaled products, times the values. */
export const flexAttention: WebgpuKernel = webgpuKernel([FlexAttention], {
  accepts({ inputs: { Q, K, V }, outputs: { Y }, attrs }) {
    if (attrs.score_mod === true || attrs.prob_mod === true) return "scores pass through a subgraph of the model";
    const precision = attrs.softmax_precision ?? "float32";
    if (precision !== "float32") return `the softmax is to be computed in ${precision}`;
    for (const operand of [Q, K, V]) if (acceptsRows(operand) !== true) return acceptsRows(operand);
    if (Y.place.size === 0 || K.place.size === 0) return "there is nothing to compute";
    return acceptsAttention(headsOf(Q, 1), headsOf(K, 1), headsOf(V, 1), Y);
  },
  record({ inputs, outputs: { Y }, attrs }, recorder) {
    const query = headsOf(inputs.Q, 1);
    recordAttention(
      {
        query,
        key: headsOf(inputs.K, 1),
        value: headsOf(inputs.V, 1),
        output: headsOf(Y, query.heads),
        lengths: undefined,
        past: 0,
        causal: false,
        left: -1,
        right: -1,
        window: -1,
        mask: undefined,
        scale: attrs.scale ?? 1 / Math.sqrt(query.size),
        softcap: 0,
        sink: undefined,
      },
      recorder,
    );
  },
});
