/** Everything that the compiled module exports: kernels only, see src/kernels/exports.ts. */
export { attentionDecode, attentionMerge, scatterAttentionDecode } from "./attention-decode";
export { attentionPrefill } from "./attention-prefill";
export { copyStrided, scatterRows } from "./copy";
export { elementwise } from "./elementwise";
export { convert } from "./float-types";
export { gatherRows } from "./gather";
export { matmul } from "./matmul";
export { matmulBlocks } from "./matmul-blocks";
export { matmulInteger } from "./matmul-integer";
export { layerNormalize, rmsNormalize } from "./normalize";
export { packPanels } from "./panels";
export { quantizeRows } from "./quantize-rows";
export { rotate } from "./rotate";
export { softmaxRows } from "./softmax";
