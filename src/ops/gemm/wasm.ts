/** Gemm on WASM: alpha and beta 1, a bias of one row or none. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { isProductType, product, single } from "../shared/wasm/matmul.js";
import { Gemm } from "./op.js";

/** A · B + C. */
export const gemm: WasmKernel = product([Gemm], ({ inputs: { A: a, B: b, C: c }, outputs: { Y: output }, attrs }) => {
  const { alpha, beta, transA, transB } = attrs;
  if (!isProductType(a.type)) return `there is no kernel for ${a.type}`;
  if (alpha !== 1) return "alpha is not 1";
  if (output.view.size === 0 || b.view.size === 0) return "there is nothing to compute";
  const [m, n] = output.shape;
  if (c !== undefined) {
    if (beta !== 1) return "beta is not 1";
    const isRow = c.shape.at(-1) === n && c.view.size === n;
    if (c.type !== "float32" || !c.contiguous || !isRow) return "C is not one float32 row";
  }
  const [aRow, aColumn] = transA ? a.strides.toReversed() : a.strides;
  const [bK, bN] = transB ? b.strides.toReversed() : b.strides;
  const k = transA ? a.shape[0] : a.shape[1];
  return { a, b, bias: c, output, m, n, k, aRow, aColumn, bK, bN, ...single };
});
