/** FusedMatMul on WASM: matrices transposed or not, alpha 1, batches that agree or share one matrix. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { isProductType, type Product, recordProduct } from "../wasm-matmul.js";

const productOf = (dims: readonly number[]): number => dims.reduce((total, dim) => total * dim, 1);

/** The call as one batched product, or why it is none. */
function plan({ inputs: [a, b], outputs: [output], attrs }: KernelCall): Product | string {
  if (attrs["alpha"] !== 1) return "alpha is not 1";
  if (attrs["transBatchA"] === true || attrs["transBatchB"] === true) return "batches are transposed";
  if (a!.shape.length < 2 || b!.shape.length < 2) return "an operand is a vector";
  if (!a!.contiguous || !b!.contiguous) return "matrices have gaps between them";
  const turned = (dims: readonly number[], turn: unknown): readonly number[] =>
    turn === true ? dims.slice(-2).toReversed() : dims.slice(-2);
  const [m, k] = turned(a!.shape, attrs["transA"]);
  const [, n] = turned(b!.shape, attrs["transB"]);
  if (output!.view.size === 0 || k === 0) return "there is nothing to compute";
  const [aRow, aColumn] = turned(a!.strides, attrs["transA"]);
  const [bK, bN] = turned(b!.strides, attrs["transB"]);
  const common = { a: a!, b: b!, bias: undefined, output: output!, n, k, aRow, aColumn, bK, bN };
  const [aBatches, bBatches] = [a!.shape.slice(0, -2), b!.shape.slice(0, -2)];
  const batch = productOf(aBatches);
  if (productOf(bBatches) === 1) {
    // Rows of all matrices follow one another unless each is transposed.
    if (attrs["transA"] !== true) return { ...common, m: batch * m, batch: 1, aBatch: 0, bBatch: 0 };
    return { ...common, m, batch, aBatch: m * k, bBatch: 0 };
  }
  if (aBatches.length !== bBatches.length || aBatches.some((dim, axis) => dim !== bBatches[axis]))
    return "batches are broadcast";
  return { ...common, m, batch, aBatch: m * k, bBatch: k * n };
}

/** A · B, each transposed or not. */
export const fusedMatmul: WasmKernel = {
  op: "FusedMatMul",
  domain: "com.microsoft",
  accepts(call) {
    if (!isProductType(call.inputs[0]!.type)) return `there is no kernel for ${call.inputs[0]!.type}`;
    const product = plan(call);
    return typeof product === "string" ? product : true;
  },
  record(call, recorder) {
    recordProduct(recorder, plan(call) as Product);
  },
};
