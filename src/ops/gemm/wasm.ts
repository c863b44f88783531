/** Gemm on WASM: alpha and beta 1, a bias of one row or none. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { isProductType, recordProduct } from "../wasm-matmul.js";

/** A · B + C. */
export const gemm: WasmKernel = {
  op: "Gemm",
  accepts({ inputs: [a, b, c], outputs: [output], attrs }) {
    if (!isProductType(a!.type)) return `there is no kernel for ${a!.type}`;
    if (attrs["alpha"] !== 1) return "alpha is not 1";
    if (output!.view.size === 0 || b!.view.size === 0) return "there is nothing to compute";
    if (c === undefined) return true;
    if (attrs["beta"] !== 1) return "beta is not 1";
    const columns = output!.shape[1];
    const isRow = c.shape.at(-1) === columns && c.view.size === columns;
    return c.type === "float32" && c.contiguous && isRow ? true : "C is not one float32 row";
  },
  record({ inputs: [a, b, c], outputs: [output], attrs }, recorder) {
    const [aRow, aColumn] = attrs["transA"] === true ? a!.strides.toReversed() : a!.strides;
    const [bK, bN] = attrs["transB"] === true ? b!.strides.toReversed() : b!.strides;
    const [m, n] = output!.shape;
    const k = attrs["transA"] === true ? a!.shape[0] : a!.shape[1];
    recordProduct(recorder, {
      a: a!,
      b: b!,
      bias: c,
      output: output!,
      m,
      n,
      k,
      aRow,
      aColumn,
      bK,
      bN,
      batch: 1,
      aBatch: 0,
      bBatch: 0,
    });
  },
};
