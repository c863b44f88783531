/** MatMul on WASM: float32, float16 and bfloat16, weights packed once, batches that agree or share one matrix. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { productOf } from "../shared/rules/layout.js";
import { isProductType, product, single } from "../shared/wasm/matmul.js";
import { MatMul } from "./op.js";

/** A · B. */
export const matmul: WasmKernel = product([MatMul], ({ inputs: { A: a, B: b }, outputs: { Y: output } }) => {
  if (!isProductType(a.type) || !isProductType(b.type)) return `there is no kernel for ${a.type}`;
  if (a.shape.length < 2 || b.shape.length < 2) return "an operand is a vector";
  const [m, k] = a.shape.slice(-2);
  const n = b.shape.at(-1)!;
  if (output.view.size === 0 || k === 0) return "there is nothing to compute";
  const [aRow, aColumn] = a.strides.slice(-2);
  const [bK, bN] = b.strides.slice(-2);
  const common = { a, b, bias: undefined, output, n, k, bK, bN };
  const aBatches = a.shape.slice(0, -2);
  const bBatches = b.shape.slice(0, -2);
  if (productOf(bBatches) === 1) {
    if (!a.contiguous) return "rows have gaps";
    return { ...common, m: productOf(aBatches) * m, aRow: k, aColumn: 1, ...single };
  }
  if (!a.contiguous || !b.contiguous) return "matrices have gaps between them";
  if (aBatches.length !== bBatches.length || aBatches.some((dim, axis) => dim !== bBatches[axis]))
    return "batches are broadcast";
  return { ...common, m, aRow, aColumn, batch: productOf(aBatches), aBatch: m * k, bBatch: k * n };
});
