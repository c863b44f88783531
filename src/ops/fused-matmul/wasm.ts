/** FusedMatMul on WASM: matrices transposed or not, alpha 1, batches that agree or share one matrix. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { productOf } from "../shared/rules/layout.js";
import { isProductType, product, single } from "../shared/wasm/matmul.js";
import { FusedMatMul } from "./op.js";

/** The last two of these, the other way round where the matrix is transposed. */
const turned = (dims: readonly number[], turn: boolean): readonly number[] =>
  turn ? dims.slice(-2).toReversed() : dims.slice(-2);

/** A · B, each transposed or not. */
export const fusedMatmul: WasmKernel = product(
  [FusedMatMul],
  ({ inputs: { A: a, B: b }, outputs: { Y: output }, attrs }) => {
    const { transA, transB } = attrs;
    if (!isProductType(a.type)) return `there is no kernel for ${a.type}`;
    if (attrs.alpha !== 1) return "alpha is not 1";
    if (attrs.transBatchA || attrs.transBatchB) return "batches are transposed";
    if (a.shape.length < 2 || b.shape.length < 2) return "an operand is a vector";
    if (!a.contiguous || !b.contiguous) return "matrices have gaps between them";
    const [m, k] = turned(a.shape, transA);
    const [, n] = turned(b.shape, transB);
    if (output.view.size === 0 || k === 0) return "there is nothing to compute";
    const [aRow, aColumn] = turned(a.strides, transA);
    const [bK, bN] = turned(b.strides, transB);
    const common = { a, b, bias: undefined, output, n, k, aRow, aColumn, bK, bN };
    const [aBatches, bBatches] = [a.shape.slice(0, -2), b.shape.slice(0, -2)];
    const batch = productOf(aBatches);
    if (productOf(bBatches) === 1) {
      // Rows of all matrices follow one another unless each is transposed.
      if (!transA) return { ...common, m: batch * m, ...single };
      return { ...common, m, batch, aBatch: m * k, bBatch: 0 };
    }
    if (aBatches.length !== bBatches.length || aBatches.some((dim, axis) => dim !== bBatches[axis]))
      return "batches are broadcast";
    return { ...common, m, batch, aBatch: m * k, bBatch: k * n };
  },
);
