/**
 * Products with weights quantized in blocks, as jobs: weights are read as ONNX lays them out. With accuracy_level 0 or 1 they are computed in
 * float32. From 2 on, which asks for no more than 16-bit floats, activations are rounded to integers of 16 bits in blocks; with 4 and
 * relaxed SIMD to 8 bits. Products of one value prepare it once, and parts share the columns of all.
 */
import type { Operand } from "../../../graph/kernel.js";
import { type JobOf, packedRowBytes, quantizedBytes, scratchBytes } from "../../../wasm-kernels/exports.js";
import { elementCode } from "../../../wasm-kernels/jobs.js";
import type { Recorder } from "../../../wasm-kernels/wasm-kernel.js";
import { isProductType, type ProductType, productParts, recordConversion, recordPacking } from "./matmul.js";
import { holdsSpecials } from "./specials.js";

/** What one of the products multiplies by, and where its result goes. */
interface BlockWeights {
  readonly b: Operand;
  readonly scales: Operand;
  readonly zeros: Operand | undefined;
  readonly bias: Operand | undefined;
  readonly n: number;
  readonly output: Operand;
}

/** What products of one value have in common. */
export interface BlockProducts {
  readonly a: Operand;
  readonly k: number;
  readonly bits: number;
  readonly blockSize: number;
  readonly level: number;
  /** At most three; scales are of one type, and all of them have zero points of one type or none has any. */
  readonly products: readonly BlockWeights[];
}

/** Why products cannot be served, if so. */
export function acceptsBlocks({ a, bits, products }: BlockProducts): true | string {
  if (!isProductType(a.type)) return `there is no kernel for ${a.type}`;
  if (!a.contiguous) return "rows have gaps";
  if (![2, 4, 8].includes(bits)) return "there are kernels for 2, 4 and 8 bits";
  for (const { scales, zeros, bias, output } of products) {
    if (!isProductType(scales.type)) return `there is no kernel for ${scales.type}`;
    if (scales.type === "float16" && scales.known && holdsSpecials(scales)) return "a scale is infinite or NaN";
    if (zeros?.type === "float16" && zeros.known && holdsSpecials(zeros)) return "a zero point is infinite or NaN";
    if (zeros !== undefined && zeros.type !== "uint8" && !isProductType(zeros.type))
      return `there is no kernel for zero points of ${zeros.type}`;
    if (bias !== undefined && (bias.type !== "float32" || !bias.contiguous)) return "the bias is not float32";
    if (output.view.size === 0) return "there is nothing to compute";
  }
  return true;
}

/** Queues the products. */
export function recordBlocks(recorder: Recorder, work: BlockProducts): void {
  const { a, products } = work;
  const [{ zeros }] = products;
  const form = formOf(recorder, work);
  const { m, k } = form;
  const n = products.reduce((sum, each) => sum + each.n, 0);
  const whole = zeros === undefined || zeros.type === "uint8";
  const activations = work.level < 2 ? floats(recorder, a, n, form, whole) : quantized(recorder, a, form);
  const made = products.map((each) => {
    const direct = each.output.type === "float32";
    const c = direct ? recorder.address(each.output) : recorder.temporary(m * each.n * 4);
    return { each, direct, c, job: { ...activations, ...form, ...weightFields(recorder, each, c, whole) } };
  });
  const parts = productParts(m * n * k, recorder);
  if (made.length === 1) recorder.run("matmulBlocks", made[0].job, parts);
  else {
    const [first, second, third = 0] = made.map(({ job }) => recorder.job("matmulBlocks", job));
    const scratch = Math.max(...made.map(({ job }) => scratchBytes("matmulBlocks", job)));
    recorder.run("matmulBlocksShared", { first, second, third, scratch }, parts);
  }
  for (const { each, direct, c } of made) if (!direct) recordConversion(recorder, c, each.output, m * each.n);
}

/** The sizes that products share, and the bits of their activations. */
interface Form {
  readonly m: number;
  readonly k: number;
  readonly blockSize: number;
  readonly bits: number;
  readonly precision: number;
  /** Where rows must come out alike whatever their number is: 1 in tiles, 2 as tiles compute; else 0. */
  readonly alike: number;
}

function formOf(recorder: Recorder, { a, k, bits, blockSize, level, products }: BlockProducts): Form {
  const [{ scales, zeros }] = products;
  const m = a.view.size / k;
  const coarse = level === 4 && recorder.relaxed && bits === 4 && blockSize >= 32;
  const precision = level < 2 ? 32 : coarse ? 8 : 16;
  const asTiles = precision === 16 && bits !== 2 && blockSize >= 32 && scales.type === "float32" && zeros === undefined;
  // Kernels whose rows come out alike are also the fastest for a few rows of 8-bit weights.
  const isWanted = recorder.batchInvariant || (asTiles && bits === 8 && m >= leastAlike);
  const alike = !isWanted ? 0 : asTiles && m <= mostStreamed(bits) ? 2 : 1;
  return { m, k, blockSize, bits, precision, alike };
}

/** The fields of a job that say what weights are, and where their product goes. */
const weightFields = (
  recorder: Recorder,
  { b, scales, zeros, bias, n }: BlockWeights,
  c: number,
  whole: boolean,
): Omit<JobOf<"matmulBlocks">, keyof Activations | keyof Form> => ({
  b: recorder.address(b),
  scales: recorder.address(scales),
  zeros: zeros === undefined ? 0 : recorder.address(zeros),
  bias: bias === undefined ? 0 : recorder.address(bias),
  c,
  scaleType: elementCode[scales.type as ProductType],
  zerosType: zeros === undefined || whole ? -1 : elementCode[zeros.type as ProductType],
  n,
  cRow: n,
  bRow: 0,
  zerosRow: 0,
});

/** The fields of a job that say what activations are. */
type Activations = Pick<JobOf<"matmulBlocks">, "values" | "aScales" | "aSums" | "a" | "aType" | "rows">;

const typeOf = ({ type }: Operand): number => elementCode[type as ProductType];

/** Activations rounded to integers, a scale for each block. */
function quantized(recorder: Recorder, a: Operand, form: Form): Activations {
  const { m, k, blockSize, bits, precision, alike } = form;
  const sizes = quantizedBytes(form);
  const [values, aScales, aSums] = [sizes.values, sizes.scales, sizes.sums].map((bytes) => recorder.temporary(bytes));
  recorder.run(
    "quantizeRows",
    {
      source: recorder.address(a),
      values,
      scales: aScales,
      sums: aSums,
      type: typeOf(a),
      m,
      k,
      sourceRow: k,
      blockSize,
      bits,
      precision,
      alike,
    },
    m >= 16 ? recorder.threads : 1,
  );
  return { values, aScales, aSums, a: 0, aType: 0, rows: 0 };
}

/** Rows of activations up to which weights are streamed where rows come out alike: more of them pay for unpacking. Four rows share weights of 8 bits. */
const mostStreamed = (bits: number): number => (bits === 8 ? 8 : 4);

/** Rows from which on that is worth it where they need not come out alike. */
const leastAlike = 3;

/** Rows of activations below which weights are unpacked for each. */
const manyRows = 4;

/** Activations as they are: packed where many rows meet the same weights, or weights that only panels unpack. */
function floats(recorder: Recorder, a: Operand, n: number, form: Form, whole: boolean): Activations {
  const { m, k, blockSize, bits } = form;
  const given = { values: 0, aScales: 0, aSums: 0, a: recorder.address(a), aType: typeOf(a), rows: 0 };
  const isRow = form.alike === 0 && m < manyRows && whole && bits !== 2 && blockSize >= 32;
  const row = Math.ceil(k / blockSize) * blockSize;
  if (isRow && m * row * 4 <= recorder.scratchBytes) return given;
  const rows = recorder.temporary(packedRowBytes({ batch: 1, m, k }));
  recordPacking(recorder, { a, m, n, k, rows });
  return { ...given, rows };
}
