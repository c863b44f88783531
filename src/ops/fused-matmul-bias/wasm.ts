/** MatMulBias on WASM: MatMul's kernel, which adds a float32 row by itself. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { isProductType, recordProduct } from "../wasm-matmul.js";

/** A · B + bias. */
export const matmulBias: WasmKernel = {
  op: "MatMulBias",
  domain: "insitu",
  accepts({ inputs: [a, b, bias], outputs: [output] }) {
    if (!isProductType(a!.type)) return `there is no kernel for ${a!.type}`;
    if (a!.shape.length < 2) return "A is a vector";
    if (output!.view.size === 0 || b!.shape[0] === 0) return "there is nothing to compute";
    if (!a!.contiguous) return "rows have gaps";
    return bias!.type === "float32" && bias!.contiguous ? true : "the bias is not one float32 row";
  },
  record({ inputs: [a, b, bias], outputs: [output] }, recorder) {
    const [k, n] = b!.shape;
    const [bK, bN] = b!.strides;
    const m = output!.view.size / n;
    const one = { batch: 1, aBatch: 0, bBatch: 0 };
    recordProduct(recorder, { a: a!, b: b!, bias, output: output!, m, n, k, aRow: k, aColumn: 1, bK, bN, ...one });
  },
};
