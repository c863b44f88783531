/** MatMulBias on WASM: MatMul's kernel, which adds a float32 row by itself. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { isProductType, product, single } from "../shared/wasm/matmul.js";
import { MatMulBias } from "./op.js";

/** A · B + bias. */
export const matmulBias: WasmKernel = product(
  [MatMulBias],
  ({ inputs: { A: a, B: b, bias }, outputs: { Y: output } }) => {
    if (!isProductType(a.type)) return `there is no kernel for ${a.type}`;
    if (a.shape.length < 2) return "A is a vector";
    if (output.view.size === 0 || b.shape[0] === 0) return "there is nothing to compute";
    if (!a.contiguous) return "rows have gaps";
    if (bias.type !== "float32" || !bias.contiguous) return "the bias is not one float32 row";
    const [k, n] = b.shape;
    const [bK, bN] = b.strides;
    return { a, b, bias, output, m: output.view.size / n, n, k, aRow: k, aColumn: 1, bK, bN, ...single };
  },
);
