/**
 * Matrix products on WebGPU: what MatMul, Gemm and their kin share. Few rows meet weights that are streamed, many are computed in tiles, and what
 * neither takes is computed element by element. Sums are float32.
 */
import { unreachable } from "../../../base/error.js";
import type { Operand } from "../../../graph/kernel.js";
import {
  type DeviceTraits,
  type Dispatch,
  webgpuFamily,
  type WebgpuRecorder,
} from "../../../webgpu-kernels/webgpu-kernel.js";
import { type ShaderPart, variable } from "../../../webgpu-kernels/shader-part.js";
import { isFloatType, perWord } from "../../../webgpu-kernels/wgsl.js";
import { elementWords } from "./element-words.js";
import { matrixProduct } from "./product-matrices.js";
import { fewRowsProduct } from "./few-rows.js";
import { fewRows } from "./few-rows-division.js";
import {
  floatsOf,
  floatWeights,
  rowQuads,
  stridedFloats,
  stridedHalves,
  stridedQuads,
  type Weights,
} from "./product-operands.js";
import { type BatchDimension, batchParameters, batchStarts } from "./product-grid.js";
import { recordBytes } from "./product-bytes.js";
import { sliceProduct } from "./product-slices.js";
import { floatTiles, halfTiles } from "./product-tiles.js";
import { rowProjection } from "./projection-rows.js";

/** One (batched) product: output = alpha · a · b + beta · addend. Strides in elements. */
interface Product {
  readonly a: Operand;
  readonly b: Operand;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly aRow: number;
  readonly aK: number;
  readonly bK: number;
  readonly bN: number;
  readonly batch: readonly BatchDimension[];
  readonly output: Operand;
  readonly finish: Finish;
}

/** What is added to a product: strides in elements, 0 for what all rows or columns share. */
interface Addend {
  readonly operand: Operand;
  readonly row: number;
  readonly column: number;
}

/** What is done with sums. */
interface Finish {
  readonly alpha: number;
  readonly beta: number;
  readonly addend?: Addend | undefined;
  /** Added after that, as it is. */
  readonly residual?: Addend | undefined;
}

/** Sums as they are. */
export const plain: Finish = { alpha: 1, beta: 1 };

/** Sums with a bias for each column, and a residual for each element of n columns. */
export const added = (bias: Operand | undefined, residual: Operand | undefined, n: number): Finish => ({
  ...plain,
  addend: bias && { operand: bias, row: 0, column: 1 },
  residual: residual && { operand: residual, row: n, column: 1 },
});

/** The part with `finish(batch, row, column, sum)`. */
export function finishing({ alpha, beta, addend, residual }: Finish): ShaderPart {
  const addends = addend && variable("addend", addend.operand);
  const residuals = residual && variable("residual", residual.operand);
  const place = (name: string): string => `p.${name}Offset + row * p.${name}Row + column * p.${name}Column`;
  const placed = (name: string, given: Addend | undefined): Record<string, number> =>
    given === undefined
      ? {}
      : { [`${name}Offset`]: given.operand.place.offset, [`${name}Row`]: given.row, [`${name}Column`]: given.column };
  const terms = [
    alpha === 1 ? "sum" : "p.alpha * sum",
    ...(addends === undefined ? [] : [`${beta === 1 ? "" : "p.beta * "}${addends.load(place("addend"))}`]),
    ...(residuals === undefined ? [] : [residuals.load(place("residual"))]),
  ];
  return {
    uses: [addends, residuals],
    code: `fn finish(batch: u32, row: u32, column: u32, sum: f32) -> f32 { return ${terms.join(" + ")}; }`,
    parameters: {
      ...(alpha === 1 ? {} : { alpha: { float: alpha } }),
      ...(addend === undefined || beta === 1 ? {} : { beta: { float: beta } }),
      ...placed("addend", addend),
      ...placed("residual", residual),
    },
  };
}

/** Kernels of operators that are one product. */
export const product = webgpuFamily<Product>({
  accepts({ a, b, output, finish: { addend } }) {
    for (const operand of [a, b, addend?.operand, output])
      if (operand !== undefined && !isFloatType(operand.type)) return `there is no kernel for ${operand.type}`;
    return output.contiguous ? true : "the output has gaps";
  },
  record: recordProduct,
});

/** Records a product. */
export function recordProduct(work: Product, recorder: WebgpuRecorder): void {
  if (work.output.place.size > 0) recorder.dispatch(fast(work, recorder) ?? anyProduct(work, recorder));
}

/** True if no word of the output holds elements of two rows. */
const hasWordRows = ({ type, place }: Operand, m: number, n: number): boolean =>
  place.offset % perWord(type) === 0 && (n % perWord(type) === 0 || m === 1);

/** Multiplications below which a product is not worth tiles. */
const smallWork = 1 << 12;

function fast(work: Product, recorder: WebgpuRecorder): Dispatch | undefined {
  const { a, b, m, n, k, aRow, aK, bK, bN, batch, output } = work;
  const matrices = batch.reduce((count, { size }) => count * size, 1);
  if (k === 0 || !hasWordRows(output, m * matrices, n)) return undefined;
  const finish = finishing(work.finish);
  const weights = matrices === 1 ? floatWeights(b, { row: bN, k: bK }, { n, k }, recorder) : undefined;
  if (weights !== undefined && m > 1 && m <= fewRows) {
    const left = rowQuads("left", a, { row: aRow, k: aK }, { rows: m, k });
    return fewRowsProduct({ name: "productOfRows", m, n, k, left, weights, finish, output }, recorder.device);
  }
  const left = stridedQuads("left", a, { row: aRow, k: aK, batch: batch.map((each) => each.left) }, { rows: m, k });
  if (weights !== undefined && m === 1) {
    const dispatch = oneRow({ name: "productOfRows", n, k, left, weights, output }, work.finish, recorder.device);
    if (dispatch !== undefined) return dispatch;
  }
  if (weights === undefined && matrices * m * n * k < smallWork) return undefined;
  const strides = { row: bN, k: bK, batch: batch.map((each) => each.right) };
  const common = { m, n, k, batch, finish, output };
  const { device } = recorder;
  const rows = { row: aRow, k: aK, batch: batch.map((each) => each.left) };
  const sizes = { left: { rows: m, k }, right: { rows: n, k } };
  const halves =
    a.type === "float16" && b.type === "float16"
      ? {
          left: stridedHalves("left", a, rows, sizes.left),
          right: weights?.halves ?? stridedHalves("weight", b, strides, sizes.right),
        }
      : undefined;
  const right = weights ?? stridedQuads("weight", b, strides, sizes.right);
  return (
    (halves && matrixProduct({ ...common, name: "productInMatrices", ...halves }, device)) ??
    sliceProduct({ ...common, name: "productInSlices", left, right }, device) ??
    (halves && halfTiles({ ...common, name: "productInTiles", ...halves }, device)) ??
    floatTiles(
      {
        ...common,
        name: "productInTiles",
        left: stridedFloats("left", a, rows, sizes.left),
        right: weights === undefined ? stridedFloats("weight", b, strides, sizes.right) : floatsOf(weights),
      },
      device,
    )
  );
}

/** The product of one row; undefined where sums are finished in another way than with a bias and a residual, or the row is too long. */
function oneRow(
  work: Omit<Parameters<typeof rowProjection>[0], "bias" | "addend">,
  { alpha, beta, addend, residual }: Finish,
  device: DeviceTraits,
): Dispatch | undefined {
  const isPlain = alpha === 1 && beta === 1;
  if (!isPlain || [addend, residual].some((given) => given !== undefined && given.column !== 1)) return undefined;
  return rowProjection({ ...work, bias: addend?.operand, addend: residual?.operand }, device);
}

/** The product element by element: any strides, any sizes. */
function anyProduct(work: Product, { device }: WebgpuRecorder): Dispatch {
  const { a, b, m, n, k, aRow, aK, bK, bN, batch, output } = work;
  const [left, right] = [variable("left", a), variable("right", b)];
  const body = `
  let column = element % p.n;
  let row = (element / p.n) % p.m;
  let batch = element / (p.n * p.m);
  ${batchStarts(batch)}
  leftStart += p.leftOffset + row * p.leftRow;
  rightStart += p.rightOffset + column * p.rightRow;
  var sum = 0.0;
  for (var k = 0u; k < p.k; k++) {
    sum += ${left.load("leftStart + k * p.leftK")} * ${right.load("rightStart + k * p.rightK")};
  }
  return finish(batch, row, column, sum);`;
  const offsets = { leftOffset: a.place.offset, rightOffset: b.place.offset };
  const strides = { leftRow: aRow, leftK: aK, rightRow: bN, rightK: bK };
  return elementWords(device, {
    name: "productByElements",
    output,
    body,
    parts: [left, right, finishing(work.finish)],
    parameters: { m, n, k, ...offsets, ...strides, ...batchParameters(batch) },
  });
}

/** A product of rows without gaps and weights of few bits, with a bias for each column or none. */
interface BlockProduct {
  readonly a: Operand;
  /** Whether rows may be rounded to bytes. */
  readonly mayRound: boolean;
  readonly weights: Weights;
  readonly bias: Operand | undefined;
  /** As many rows and columns as the output. */
  readonly residual?: Operand | undefined;
  readonly output: Operand;
  readonly n: number;
  readonly k: number;
}

/** Rows that the grid of every device holds, tile by tile. */
const mostRows = 1 << 20;

/** True if such a product can be computed, else why not. */
export function acceptsBlocks({ a, bias, output, n, k }: Omit<BlockProduct, "weights" | "mayRound">): true | string {
  for (const operand of [a, bias, output]) {
    if (operand === undefined) continue;
    if (!isFloatType(operand.type)) return `there is no kernel for ${operand.type}`;
    if (!operand.contiguous) return "an operand has gaps";
  }
  if (a.place.size / k > mostRows) return `there are more than ${mostRows} rows`;
  return hasWordRows(output, a.place.size / k, n) ? true : "rows are an odd number of halves of a word";
}

/** Records such a product. */
export function recordBlocks(
  { a, mayRound, weights, bias, residual, output, n, k }: BlockProduct,
  recorder: WebgpuRecorder,
): void {
  const m = a.place.size / k;
  const finish = finishing(added(bias, residual, n));
  const { device } = recorder;
  if (m > 1 && m <= fewRows) {
    const left = rowQuads("left", a, { row: k, k: 1 }, { rows: m, k });
    return recorder.dispatch(fewRowsProduct({ name: "blocksOfRows", m, n, k, left, weights, finish, output }, device));
  }
  const strides = { row: k, k: 1, batch: [] };
  const sizes = { rows: m, k };
  const left = stridedQuads("left", a, strides, sizes);
  if (m === 1) {
    const one = { name: "blocksOfRows", n, k, left, weights, bias, addend: residual, output };
    const dispatch = rowProjection(one, device);
    if (dispatch !== undefined) return recorder.dispatch(dispatch);
  }
  const common = { m, n, k, batch: [], finish, output };
  // Levels become float16 on their way.
  const halves =
    m > 1 && a.type === "float16" && weights.halves !== undefined
      ? { left: stridedHalves("left", a, strides, sizes), right: weights.halves }
      : undefined;
  const early =
    (halves && matrixProduct({ ...common, name: "blocksInMatrices", ...halves }, device)) ??
    sliceProduct({ ...common, name: "blocksInSlices", left, right: weights }, device);
  if (early !== undefined) return recorder.dispatch(early);
  const { cells } = weights;
  if (mayRound && cells !== undefined && recordBytes({ ...common, name: "blocksInBytes", a, cells }, recorder)) return;
  const dispatch =
    (halves && halfTiles({ ...common, name: "blocksInTiles", ...halves }, device)) ??
    floatTiles(
      { ...common, name: "blocksInTiles", left: stridedFloats("left", a, strides, sizes), right: floatsOf(weights) },
      device,
    );
  recorder.dispatch(dispatch ?? unreachable(`a grid for ${m} rows and ${n} columns`));
}

/** The last two axes of an operand as a matrix, and those before them. A vector is one row on the left and one column on the right. */
interface Matrices {
  readonly shape: readonly number[];
  readonly strides: readonly number[];
}

const asMatrices = ({ shape, strides }: Matrices, side: "left" | "right"): Matrices => {
  if (shape.length !== 1) return { shape, strides };
  return side === "left"
    ? { shape: [1, shape[0]], strides: [0, strides[0]] }
    : { shape: [shape[0], 1], strides: [strides[0], 0] };
};

/** The sizes and strides of numpy.matmul's product of two operands whose axes are in this order. */
export function matmulSizes(
  first: Matrices,
  second: Matrices,
): Pick<Product, "m" | "n" | "k" | "aRow" | "aK" | "bK" | "bN" | "batch"> {
  const [a, b] = [asMatrices(first, "left"), asMatrices(second, "right")];
  const [m, k] = a.shape.slice(-2);
  const n = b.shape.at(-1)!;
  const [aRow, aK] = a.strides.slice(-2);
  const [bK, bN] = b.strides.slice(-2);
  const rank = Math.max(a.shape.length, b.shape.length) - 2;
  const dims = ({ shape, strides }: Matrices): readonly { readonly size: number; readonly stride: number }[] =>
    Array.from({ length: rank }, (_, axis) => {
      const at = axis - (rank + 2 - shape.length);
      return at < 0 || shape[at] === 1 ? { size: 1, stride: 0 } : { size: shape[at], stride: strides[at] };
    });
  const [lefts, rights] = [dims(a), dims(b)];
  const batch = lefts
    .map((left, axis) => ({
      size: left.size === 1 ? rights[axis].size : left.size,
      left: left.stride,
      right: rights[axis].stride,
    }))
    .filter(({ size }) => size !== 1);
  return { ...joined(m, aRow, batch), n, k, aK, bK, bN };
}

/** Matrices of a batch that share the right operand, and whose rows go on from one to the next, are one matrix. */
function joined(m: number, aRow: number, batch: readonly BatchDimension[]): Pick<Product, "m" | "aRow" | "batch"> {
  const last = batch.at(-1);
  if (last === undefined || last.right !== 0) return { m, aRow, batch };
  if (m === 1) return joined(last.size, last.left, batch.slice(0, -1));
  return last.left === m * aRow ? joined(m * last.size, aRow, batch.slice(0, -1)) : { m, aRow, batch };
}
