/**
 * Matrix products for the operators' references: the inner loops, numpy's rule for shapes, and products of whole views.
 * Floats accumulate in float64 in the order of the inner dimension; integers wrap exactly.
 */
import { unreachable } from "../../../base/error.js";
import { type Dim, isKnownShape, type Shape, shapeText } from "../../../graph/dim.js";
import type { CallContext } from "../../../graph/op.js";
import {
  type BigInts,
  isWide,
  type Numbers,
  readBigInts,
  readNumbers,
  writeBigInts,
  writeNumbers,
} from "../../../tensor/access.js";
import { type ElementType, traitsOf } from "../../../tensor/element-type.js";
import { forEachIndex, View } from "../../../tensor/view.js";
import { product } from "../loops/rows.js";
import { float64Scratch, int32Scratch, int64Scratch } from "../loops/scratch.js";
import { broadcastShapes, unifyDims } from "../rules/shapes.js";
import { floats } from "../rules/types.js";

/** The types that MatMul and Gemm take. */
export const productTypes: readonly ElementType[] = [...floats, "int32", "int64", "uint32", "uint64"];

/** The sizes of one product: [m,k] · [k,n] = [m,n]. */
interface MatrixSizes {
  readonly m: number;
  readonly k: number;
  readonly n: number;
}

/** Where the three matrices of one product start in their arrays, and how the second one lies. */
interface MatrixPlaces {
  readonly a?: number;
  readonly b?: number;
  readonly out?: number;
  /** The second matrix is stored as [n,k]. */
  readonly transposedB?: boolean;
}

/** Writes the product of a [m,k] and b [k,n] to out [m,n], summing in float64. */
function multiplyMatrices(
  a: Numbers,
  b: Numbers,
  out: Float64Array,
  { m, k, n }: MatrixSizes,
  places: MatrixPlaces = {},
): void {
  const { a: aStart = 0, b: bStart = 0, out: outStart = 0, transposedB = false } = places;
  for (let row = 0; row < m; row++) {
    const from = aStart + row * k;
    const to = outStart + row * n;
    if (transposedB) {
      for (let column = 0; column < n; column++) {
        const other = bStart + column * k;
        let sum = 0;
        for (let i = 0; i < k; i++) sum += a[from + i] * b[other + i];
        out[to + column] = sum;
      }
      continue;
    }
    out.fill(0, to, to + n);
    for (let i = 0; i < k; i++) {
      const factor = a[from + i];
      const other = bStart + i * n;
      for (let column = 0; column < n; column++) out[to + column] += factor * b[other + column];
    }
  }
}

/** `multiplyMatrices` modulo 2^32, for integers of up to 32 bits: the low bits are right for every one of their types. */
function multiplyIntegerMatrices(
  a: Int32Array,
  b: Int32Array,
  out: Int32Array,
  { m, k, n }: MatrixSizes,
  places: MatrixPlaces = {},
): void {
  const { a: aStart = 0, b: bStart = 0, out: outStart = 0, transposedB = false } = places;
  const [alongK, alongN] = transposedB ? [1, k] : [n, 1];
  for (let row = 0; row < m; row++) {
    for (let column = 0; column < n; column++) {
      let sum = 0;
      for (let i = 0; i < k; i++)
        sum = (sum + Math.imul(a[aStart + row * k + i], b[bStart + column * alongN + i * alongK])) | 0;
      out[outStart + row * n + column] = sum;
    }
  }
}

/** `multiplyMatrices` modulo 2^64. */
function multiplyBigMatrices(
  a: BigInts,
  b: BigInts,
  out: BigInts,
  { m, k, n }: MatrixSizes,
  places: MatrixPlaces = {},
): void {
  const { a: aStart = 0, b: bStart = 0, out: outStart = 0, transposedB = false } = places;
  const [alongK, alongN] = transposedB ? [1, k] : [n, 1];
  for (let row = 0; row < m; row++) {
    for (let column = 0; column < n; column++) {
      let sum = 0n;
      for (let i = 0; i < k; i++) sum += a[aStart + row * k + i] * b[bStart + column * alongN + i * alongK];
      out[outStart + row * n + column] = sum;
    }
  }
}

/** Elements in the form that products compute with. */
export type Operand =
  | { readonly kind: "float"; readonly values: Numbers }
  | { readonly kind: "integer"; readonly values: Int32Array }
  | { readonly kind: "wide"; readonly values: BigInts };

/** A view's elements in row-major order: numbers for floats, wrapped to 32 bits for integers up to those, else 64-bit integers. */
export function operandOf(view: View): Operand {
  if (isWide(view.type)) return { kind: "wide", values: readBigInts(view) };
  const values = readNumbers(view);
  if (traitsOf(view.type).kind === "float") return { kind: "float", values };
  return {
    kind: "integer",
    values: values instanceof Int32Array ? values : Int32Array.from(values, (value) => value | 0),
  };
}

/** Stores what was computed, rounding floats and wrapping integers to the view's type. */
export function storeOperand(view: View, { kind, values }: Operand): void {
  if (kind === "wide") writeBigInts(view, values);
  else writeNumbers(view, values);
}

/** One matrix product of a batch: where its matrices start. */
interface BatchedProduct {
  readonly sizes: MatrixSizes;
  /** Starts of the first matrices, one a batch entry. */
  readonly a: ArrayLike<number>;
  /** Starts of the second matrices. */
  readonly b: ArrayLike<number>;
}

/** The product of operands as listed by `batches`: all results one after another. */
export function multiplyOperands(a: Operand, b: Operand, batches: BatchedProduct, transposedB = false): Operand {
  const { sizes } = batches;
  const step = sizes.m * sizes.n;
  const count = batches.a.length * step;
  const each = (multiply: (places: MatrixPlaces) => void): void => {
    for (let batch = 0; batch < batches.a.length; batch++) {
      multiply({ a: batches.a[batch], b: batches.b[batch], out: batch * step, transposedB });
    }
  };
  if (a.kind === "float" && b.kind === "float") {
    const values = float64Scratch(count);
    each((places) => multiplyMatrices(a.values, b.values, values, sizes, places));
    return { kind: "float", values };
  }
  if (a.kind === "wide" && b.kind === "wide") {
    const values = int64Scratch(count);
    each((places) => multiplyBigMatrices(a.values, b.values, values, sizes, places));
    return { kind: "wide", values };
  }
  if (a.kind !== "integer" || b.kind !== "integer") return unreachable(`a product of ${a.kind} and ${b.kind}`);
  const values = int32Scratch(count);
  each((places) => multiplyIntegerMatrices(a.values, b.values, values, sizes, places));
  return { kind: "integer", values };
}

/** A shape as matrices: a vector on the left is one row, on the right one column. */
const asMatrices = <D extends Dim>(shape: readonly D[], side: "left" | "right"): readonly (D | 1)[] =>
  shape.length !== 1 ? shape : side === "left" ? [1, shape[0]] : [shape[0], 1];

/** numpy.matmul's shape of a · b; undefined where a rank is unknown. Fails where the operands do not fit. */
export function matmulShape(call: CallContext, a: Shape | undefined, b: Shape | undefined): Shape | undefined {
  for (const [name, shape] of [["the first operand", a] as const, ["the second operand", b] as const]) {
    call.check(shape === undefined || shape.length > 0, `${name} must have at least 1 dimension, got a scalar`);
  }
  if (a === undefined || b === undefined) return undefined;
  const left = asMatrices(a, "left");
  const right = asMatrices(b, "right");
  unifyDims(call, left.at(-1)!, right.at(-2)!, `${shapeText(a)} · ${shapeText(b)} must agree in the inner dimension`);
  const batch = broadcastShapes(call, [left.slice(0, -2), right.slice(0, -2)])!;
  return [...batch, ...(a.length === 1 ? [] : [left.at(-2)!]), ...(b.length === 1 ? [] : [right.at(-1)!])];
}

/** The multiplications that numpy.matmul makes of operands of known shapes. */
export function matmulSteps(call: CallContext, a: Shape | undefined, b: Shape | undefined): number {
  const shape = matmulShape(call, a, b);
  return isKnownShape(shape) && isKnownShape(a) ? product(shape) * a.at(-1)! : Infinity;
}

/** The matrix products that numpy.matmul makes of two contiguous operands of these shapes. */
function matmulBatches(a: readonly number[], b: readonly number[]): BatchedProduct {
  const left = asMatrices(a, "left");
  const right = asMatrices(b, "right");
  const [m, k, n] = [left.at(-2)!, left.at(-1)!, right.at(-1)!];
  // One matrix on the right serves all rows of the batch at once.
  if (right.length === 2) return { sizes: { m: m * product(left.slice(0, -2)), k, n }, a: [0], b: [0] };
  const rank = Math.max(left.length, right.length) - 2;
  const pad = (shape: readonly number[]): number[] => [
    ...new Array<number>(rank + 2 - shape.length).fill(1),
    ...shape.slice(0, -2),
  ];
  const [leftBatch, rightBatch] = [pad(left), pad(right)];
  const batch = leftBatch.map((dim, axis) => (dim === 1 ? rightBatch[axis] : dim));
  return { sizes: { m, k, n }, a: starts(leftBatch, batch, m * k), b: starts(rightBatch, batch, k * n) };
}

/** Where each entry of `batch` finds its matrix of `size` elements in an operand with the batch dimensions `own`. */
function starts(own: readonly number[], batch: readonly number[], size: number): Float64Array {
  const matrices = new View("uint8", own, new Uint8Array(0));
  const result = float64Scratch(product(batch));
  forEachIndex(matrices.broadcastTo(batch), (index, position) => (result[position] = index * size));
  return result;
}

/** numpy.matmul of two views into `out`, whose shape is `matmulShape`'s. */
export function multiplyViews(a: View, b: View, out: View): void {
  if (out.size === 0) return;
  storeOperand(out, multiplyOperands(operandOf(a), operandOf(b), matmulBatches(a.shape, b.shape)));
}
