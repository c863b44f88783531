/** MatMulBnb4 on WASM: weights are looked up a column at a time. */
import { elementCode } from "../../wasm-kernels/jobs.js";
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { isProductType, type ProductType, productParts, recordConversion } from "../shared/wasm/matmul.js";
import { levels } from "./levels.js";
import { MatMulBnb4 } from "./op.js";

/** A · dequantized(B)ᵀ. */
export const matmulTable: WasmKernel = wasmKernel([MatMulBnb4], {
  accepts({ inputs: { A, B, absmax }, outputs: { Y }, attrs: { K, block_size: block, transB } }) {
    if (!transB) return "weights are not transposed";
    if (K % block !== 0) return "blocks go on from row to row";
    if (!isProductType(A.type)) return `there is no kernel for ${A.type}`;
    if (!A.contiguous || !B.contiguous || !absmax.contiguous) return "operands have gaps";
    return Y.view.size === 0 ? "there is nothing to compute" : true;
  },
  record(
    { inputs: { A, B, absmax }, outputs: { Y }, attrs: { K, N, block_size: blockSize, quant_type: kind } },
    recorder,
  ) {
    const m = A.view.size / K;
    const direct = Y.type === "float32";
    const c = direct ? recorder.address(Y) : recorder.temporary(m * N * 4);
    const job = {
      a: recorder.address(A),
      b: recorder.address(B),
      scales: recorder.address(absmax),
      table: recorder.words(levels[kind].map((number) => ({ number }))),
      c,
      aType: elementCode[A.type as ProductType],
      scaleType: elementCode[absmax.type as ProductType],
      m,
      n: N,
      k: K,
      blockSize,
    };
    recorder.run("matmulTable", job, productParts(m * N * K, recorder));
    if (!direct) recordConversion(recorder, c, Y, m * N);
  },
});
