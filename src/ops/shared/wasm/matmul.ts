/** Matrix products as jobs: what the fast paths of MatMul, Gemm and their kin share. */
import { packedRowBytes, panelsAtOnce } from "../../../wasm-kernels/exports.js";
import { elementCode } from "../../../wasm-kernels/jobs.js";
import type { Operand } from "../../../graph/kernel.js";
import { type Recorder, wasmFamily } from "../../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf } from "../../../tensor/element-type.js";
import { holdsSpecials } from "./specials.js";
import { partsEach } from "./work.js";

/** The float types that products take. */
export type ProductType = "float32" | "float16" | "bfloat16";

/** True for the float types that products take. */
export const isProductType = (type: string): type is ProductType =>
  type === "float32" || type === "float16" || type === "bfloat16";

/** Multiplications below which a product is not worth sharing. */
const smallWork = 1 << 16;

/** Rows up to which b is streamed rather than packed. */
const fewRows = 8;

/** Bytes of b that a range of its rows has at least, and the most ranges there are: the number must not follow that of the threads. */
const rangeBytes = 1 << 19;
const mostRanges = 16;

/** One (batched) product: c = a · b + bias. Strides in elements. */
interface Product {
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
  /** For weights of few bits: [k, n], batch 1. */
  readonly levels?: Levels;
}

/** The scales of weights of few bits. */
export interface Levels {
  /** Float32. */
  readonly scale: Operand;
  /** As many as scales, of b's type. */
  readonly zero: Operand | undefined;
  /** levelCode of b. */
  readonly code: number;
  /** Rows of b that share scales. */
  readonly block: number;
  /** Strides of scales: from block to block, and from column to column. */
  readonly scaleK: number;
  readonly scaleN: number;
}

/** Fast paths of operators that are one product. */
export const product = wasmFamily<Product>({
  accepts: () => true,
  record: (work, recorder) => recordProduct(recorder, work),
});

/** A product of one matrix, not of a batch. */
export const single = { batch: 1, aBatch: 0, bBatch: 0 } as const;

/** Into how many parts a product of this size is worth dividing. */
export const productParts = (work: number, recorder: Recorder): number =>
  work < smallWork || recorder.threads === 1 ? 1 : recorder.threads * partsEach;

/** A job's fields for scales. */
function levelFields(
  recorder: Recorder,
  levels: Levels | undefined,
): Record<"scale" | "zero" | "scaleK" | "scaleN" | "block", number> {
  if (levels === undefined) return { scale: 0, zero: 0, scaleK: 0, scaleN: 0, block: 1 };
  const { scale, zero, scaleK, scaleN, block } = levels;
  return {
    scale: recorder.address(scale),
    zero: zero === undefined ? 0 : recorder.address(zero),
    scaleK,
    scaleN,
    block,
  };
}

/** Queues a product. Weights are read as they lie: there is no other form of them. */
function recordProduct(recorder: Recorder, work: Product): void {
  const { output, m, n, batch } = work;
  const direct = output.type === "float32";
  const c = direct ? recorder.address(output) : recorder.temporary(batch * m * n * 4);
  recordProductAt(recorder, work, c);
  if (!direct) recordConversion(recorder, c, output, batch * m * n);
}

/** A product that need not be one of operands alone: b may be made by the call itself, and lie at an address. */
interface ProductParts extends Omit<Product, "output" | "b"> {
  readonly b: Operand | { readonly address: number; readonly type: "float32" };
  /** From row to row of the result, where that is not n. */
  readonly cRow?: number;
}

/** Queues a product whose result, in float32, goes to an address. */
export function recordProductAt(recorder: Recorder, work: ProductParts, c: number): void {
  const { a, b, bias, m, n, k, batch, aRow, aColumn, bK, bN, aBatch, bBatch, levels, cRow = n } = work;
  const rows = levels === undefined ? k : Math.ceil(k / levels.block); // or blocks of them
  const ranges = Math.min(mostRanges, Math.ceil(byteLengthOf(b.type, k * n) / rangeBytes), rows);
  // The rows of a that meet a range lie in scratch.
  const fits = 4 * m * Math.ceil(k / (bN === 1 && batch === 1 ? ranges : 1)) <= recorder.scratchBytes;
  const streamed = !recorder.batchInvariant && m <= fewRows && (bN === 1 || bK === 1) && fits;
  const splits = streamed && bN === 1 && batch === 1 ? ranges : 1;
  const job = {
    a: recorder.address(a),
    b: "address" in b ? b.address : recorder.address(b),
    c,
    bias: bias === undefined ? 0 : recorder.address(bias),
    rows: streamed ? 0 : recorder.temporary(packedRowBytes({ batch, m, k })),
    partials: splits === 1 ? 0 : recorder.temporary(splits * m * n * 4),
    aType: elementCode[a.type as ProductType],
    bType: levels?.code ?? elementCode[b.type as ProductType],
    m,
    n,
    k,
    aRow,
    aColumn,
    bK,
    bN,
    cRow,
    batch,
    aBatch,
    bBatch,
    cBatch: m * n,
    splits,
    looks: streamed && !("address" in b) && b.type === "float16" && holdsSpecials(b) ? 1 : 0,
    ...levelFields(recorder, levels),
    panels: panelsAtOnce(n, recorder.scratchBytes),
  };
  const multiplications = batch * m * n * k;
  const parts = splits > 1 && multiplications >= smallWork ? splits : productParts(multiplications, recorder);
  if (!streamed) recorder.run("packRows", job, batch * m * k < smallWork ? 1 : recorder.threads);
  recorder.run("matmul", job, parts);
  if (splits > 1) recorder.run("matmulMerge", job, splits * m * n < smallWork ? 1 : recorder.threads);
}

/** Queues the packing of contiguous rows of a for panels that another kernel unpacks. */
export function recordPacking(
  recorder: Recorder,
  {
    a,
    m,
    n,
    k,
    rows,
  }: { readonly a: Operand; readonly m: number; readonly n: number; readonly k: number; readonly rows: number },
): void {
  const unused = { b: 0, c: 0, bias: 0, partials: 0, bType: 0, bK: 0, bN: 0, cRow: 0, aBatch: 0, bBatch: 0, cBatch: 0 };
  const job = {
    ...unused,
    ...levelFields(recorder, undefined),
    a: recorder.address(a),
    rows,
    aType: elementCode[a.type as ProductType],
    m,
    n,
    k,
    aRow: k,
    aColumn: 1,
    batch: 1,
    splits: 1,
    looks: 0,
    panels: 1,
  };
  recorder.run("packRows", job, m * k < smallWork ? 1 : recorder.threads);
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
