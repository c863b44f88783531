/** MatMulNBits on WebGPU: weights as ONNX lays them out, sums in float32 whatever accuracy_level allows. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { blockWeights } from "../shared/webgpu/block-weights.js";
import { finishing, hasWordRows, plain } from "../shared/webgpu/product.js";
import { stridedQuads } from "../shared/webgpu/product-operands.js";
import { fewRows, rowProduct } from "../shared/webgpu/product-rows.js";
import { tileProduct } from "../shared/webgpu/product-tiles.js";
import { isFloatType } from "../shared/webgpu/quads.js";
import { MatMulNBits } from "./op.js";

/** Rows that the grid of every device holds, tile by tile. */
const mostRows = 1 << 20;

/** A · dequantized(B)ᵀ + bias. */
export const matmulBlocks: WebgpuKernel = webgpuKernel([MatMulNBits], {
  accepts({ inputs: { A: a, B: b, scales, zero_points: zeros, g_idx, bias }, outputs: { Y: output }, attrs }) {
    if (g_idx !== undefined) return "g_idx orders the blocks";
    for (const operand of [a, scales, bias, output])
      if (operand !== undefined && !isFloatType(operand.type)) return `there is no kernel for ${operand.type}`;
    for (const operand of [a, b, scales, zeros, bias, output])
      if (operand !== undefined && !operand.contiguous) return "an operand has gaps";
    if (b.place.offset !== 0) return "the weights do not begin at a word";
    if (output.place.size / attrs.N > mostRows) return `there are more than ${mostRows} rows`;
    return hasWordRows(output, a.place.size / attrs.K, attrs.N) ? true : "rows are an odd number of halves of a word";
  },
  record({ inputs: { A: a, B: data, scales, zero_points: zeros, bias }, outputs: { Y: output }, attrs }, recorder) {
    if (output.place.size === 0) return;
    const { K: k, N: n, bits, block_size: blockSize } = attrs;
    const m = a.place.size / k;
    const left = stridedQuads("left", a, { row: k, k: 1, batch: [] }, { rows: m, k });
    const weights = blockWeights({ data, scales, zeros, bits, blockSize, k });
    const finish = finishing({ ...plain, addend: bias && { operand: bias, row: 0, column: 1 } });
    const common = { m, n, k, left, finish, output };
    recorder.dispatch(
      m <= fewRows
        ? rowProduct({ ...common, name: "blocksOfRows", weights }, recorder.device)
        : tileProduct({ ...common, name: "blocksInTiles", batch: [], right: weights }, recorder.device)!,
    );
  },
});
