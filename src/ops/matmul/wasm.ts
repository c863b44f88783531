/** MatMul on WASM: float32, float16 and bfloat16, weights packed once, batches that agree or share one matrix. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { isProductType, type Product, recordProduct } from "../wasm-matmul.js";

const productOf = (dims: readonly number[]): number => dims.reduce((total, dim) => total * dim, 1);

/** The call as one batched product, or why it is none. */
function plan({ inputs: [a, b], outputs: [output] }: KernelCall): Product | string {
  if (a!.shape.length < 2 || b!.shape.length < 2) return "an operand is a vector";
  const [m, k] = a!.shape.slice(-2);
  const n = b!.shape.at(-1)!;
  if (output!.view.size === 0 || k === 0) return "there is nothing to compute";
  const [aRow, aColumn] = a!.strides.slice(-2);
  const [bK, bN] = b!.strides.slice(-2);
  const common = { a: a!, b: b!, bias: undefined, output: output!, n, k, bK, bN };
  const aBatches = a!.shape.slice(0, -2);
  const bBatches = b!.shape.slice(0, -2);
  if (productOf(bBatches) === 1) {
    if (!a!.contiguous) return "rows have gaps";
    return { ...common, m: productOf(aBatches) * m, aRow: k, aColumn: 1, batch: 1, aBatch: 0, bBatch: 0 };
  }
  if (!a!.contiguous || !b!.contiguous) return "matrices have gaps between them";
  if (aBatches.length !== bBatches.length || aBatches.some((dim, axis) => dim !== bBatches[axis]))
    return "batches are broadcast";
  return { ...common, m, aRow, aColumn, batch: productOf(aBatches), aBatch: m * k, bBatch: k * n };
}

/** A · B. */
export const matmul: WasmKernel = {
  op: "MatMul",
  accepts(call) {
    const [a, b] = call.inputs;
    if (!isProductType(a!.type) || !isProductType(b!.type)) return `there is no kernel for ${a!.type}`;
    const product = plan(call);
    return typeof product === "string" ? product : true;
  },
  record(call, recorder) {
    recordProduct(recorder, plan(call) as Product);
  },
};
