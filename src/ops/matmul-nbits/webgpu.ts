/** MatMulNBits on WebGPU: weights as ONNX lays them out, rows are rounded to bytes where accuracy_level 4 allows it. */
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { isFloatType } from "../../webgpu-kernels/wgsl.js";
import { blockWeights, zeroPointsOf } from "../shared/webgpu/block-weights.js";
import { acceptsBlocks, recordBlocks } from "../shared/webgpu/product.js";
import { MatMulNBits } from "./op.js";

/** A · dequantized(B)ᵀ + bias. */
export const matmulBlocks: WebgpuKernel = webgpuKernel([MatMulNBits], {
  accepts({ inputs: { A: a, B: b, scales, zero_points: zeros, g_idx, bias }, outputs: { Y: output }, attrs }) {
    if (g_idx !== undefined) return "g_idx orders the blocks";
    if (!isFloatType(scales.type)) return `there is no kernel for ${scales.type}`;
    for (const operand of [b, scales, zeros]) if (operand?.contiguous === false) return "an operand has gaps";
    if (b.place.offset !== 0) return "the weights do not begin where their memory does";
    return acceptsBlocks({ a, bias, output, n: attrs.N, k: attrs.K });
  },
  record({ inputs: { A: a, B: data, scales, zero_points: zeros, bias }, outputs: { Y: output }, attrs }, recorder) {
    if (output.place.size === 0) return;
    const { K: k, N: n, bits, block_size: blockSize } = attrs;
    const weights = blockWeights({ data, scales, zeros: zeroPointsOf(zeros, bits), bits, blockSize, k });
    recordBlocks({ a, mayRound: attrs.accuracy_level === 4, weights, bias, output, n, k }, recorder);
  },
});
