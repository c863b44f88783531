/** Matrix products as jobs: what the fast paths of MatMul, Gemm and their kin share. */
import { panelBytes } from "../kernels/exports.js";
import { elementCode } from "../kernels/jobs.js";
import type { Operand, Recorder } from "../kernels/wasm-kernel.js";
import { byteLengthOf } from "../tensor/element-type.js";

/** The float types that products take. */
export type ProductType = "float32" | "float16" | "bfloat16";

/** True for the float types that products take. */
export const isProductType = (type: string): type is ProductType =>
  type === "float32" || type === "float16" || type === "bfloat16";

/** Multiplications below which a product is not worth sharing. */
const smallWork = 1 << 16;

/** One (batched) product: c = a · b + bias. Strides in elements. */
export interface Product {
  readonly a: Operand;
  readonly b: Operand;
  /** Float32 [n]. */
  readonly bias: Operand | undefined;
  readonly output: Operand;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly aRow: number;
  readonly aColumn: number;
  readonly bK: number;
  readonly bN: number;
  readonly batch: number;
  readonly aBatch: number;
  /** 0 where all of the batch share b. */
  readonly bBatch: number;
}

/** How many threads a product of this size is worth. */
export const productParts = (work: number, recorder: Recorder): number => (work < smallWork ? 1 : recorder.threads);

/** Queues a product. Constant weights are packed once and kept; others are packed each time. */
export function recordProduct(recorder: Recorder, product: Product): void {
  const { a, b, bias, output, m, n, k, batch } = product;
  const panels = panelsOf(recorder, product);
  const direct = output.type === "float32";
  const c = direct ? recorder.address(output) : recorder.temporary(batch * m * n * 4);
  recorder.run(
    "matmul",
    {
      a: recorder.address(a),
      b: panels.address,
      c,
      bias: bias === undefined ? 0 : recorder.address(bias),
      aType: elementCode[a.type as ProductType],
      bType: elementCode[b.type as ProductType],
      m,
      n,
      k,
      aRow: product.aRow,
      aColumn: product.aColumn,
      cRow: n,
      batch,
      aBatch: product.aBatch,
      bBatch: panels.step,
      cBatch: m * n,
    },
    productParts(batch * m * n * k, recorder),
  );
  if (!direct) recordConversion(recorder, c, output, batch * m * n);
}

/** Queues the rounding of float32 results into a narrower output. */
export function recordConversion(recorder: Recorder, source: number, output: Operand, count: number): void {
  recorder.run(
    "convert",
    {
      source,
      target: recorder.address(output),
      sourceType: elementCode.float32,
      targetType: elementCode[output.type as ProductType],
      count,
    },
    count < smallWork ? 1 : recorder.threads,
  );
}

function panelsOf(
  recorder: Recorder,
  { b, n, k, bK, bN, batch, bBatch }: Product,
): { readonly address: number; readonly step: number } {
  const width = byteLengthOf(b.type, 1);
  const one = panelBytes(k, n, width);
  const count = bBatch === 0 ? 1 : batch;
  const pack = (target: number, into: Recorder): void =>
    into.run(
      "packPanels",
      {
        source: into.address(b),
        target,
        type: elementCode[b.type as ProductType],
        k,
        n,
        kFrom: 0,
        kTo: k,
        nFrom: 0,
        nTo: n,
        sourceK: bK,
        sourceN: bN,
        batch: count,
        sourceBatch: bBatch,
        targetBatch: one / width,
      },
      count * k * n < smallWork ? 1 : into.threads,
    );
  const step = bBatch === 0 ? 0 : one / width;
  if (b.constant) return { address: recorder.prepared(b, `panels ${bK} ${bN}`, one * count, pack), step };
  const address = recorder.temporary(one * count);
  pack(address, recorder);
  return { address, step };
}
