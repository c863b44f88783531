/**
 * MatMulNBits on WASM: reads the weights as ONNX lays them out. With accuracy_level 0 or 1 it computes in float32. From 2 on, which asks for
 * no more than 16-bit floats, activations are rounded to integers of 16 bits in blocks; with 4 and relaxed SIMD to 8 bits.
 */
import type { Operand } from "../../graph/kernel.js";
import { type JobOf, packedRowBytes, quantizedBytes } from "../../wasm-kernels/exports.js";
import { elementCode } from "../../wasm-kernels/jobs.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import {
  isProductType,
  type ProductType,
  productParts,
  recordConversion,
  recordPacking,
} from "../shared/wasm/matmul.js";
import { MatMulNBits } from "./op.js";

/** A · dequantized(B)ᵀ + bias. */
export const matmulBlocks: WasmKernel = wasmKernel([MatMulNBits], {
  accepts({ inputs: { A: a, scales, zero_points: zeros, g_idx, bias }, outputs: { Y: output }, attrs: { bits } }) {
    if (g_idx !== undefined) return "g_idx orders the blocks";
    if (!isProductType(a.type) || !isProductType(scales.type)) return `there is no kernel for ${a.type}`;
    if (!a.contiguous) return "rows have gaps";
    if (zeros !== undefined && zeros.type !== "uint8" && !isProductType(zeros.type))
      return `there is no kernel for zero points of ${zeros.type}`;
    if (bias !== undefined && (bias.type !== "float32" || !bias.contiguous)) return "the bias is not float32";
    if (![2, 4, 8].includes(bits)) return "there are kernels for 2, 4 and 8 bits";
    return output.view.size > 0 ? true : "there is nothing to compute";
  },
  record({ inputs: { A: a, B: b, scales, zero_points: zeros, bias }, outputs: { Y: output }, attrs }, recorder) {
    const { K: k, N: n, bits, block_size: blockSize, accuracy_level: level } = attrs;
    const m = a.view.size / k;
    const coarse = level === 4 && recorder.relaxed && bits === 4 && blockSize >= 32;
    const precision = level < 2 ? 32 : coarse ? 8 : 16;
    const asTiles =
      precision === 16 && bits !== 2 && blockSize >= 32 && scales.type === "float32" && zeros === undefined;
    const alike = !recorder.batchInvariant ? 0 : asTiles && m <= mostStreamed ? 2 : 1;
    const form = { m, n, k, blockSize, bits, precision, alike };
    const whole = zeros === undefined || zeros.type === "uint8";
    const activations = level < 2 ? floats(recorder, a, form, whole) : quantized(recorder, a, form);
    const direct = output.type === "float32";
    const c = direct ? recorder.address(output) : recorder.temporary(m * n * 4);
    recorder.run(
      "matmulBlocks",
      {
        ...activations,
        b: recorder.address(b),
        scales: recorder.address(scales),
        zeros: zeros === undefined ? 0 : recorder.address(zeros),
        bias: bias === undefined ? 0 : recorder.address(bias),
        c,
        scaleType: elementCode[scales.type as ProductType],
        zerosType: whole ? -1 : elementCode[zeros.type as ProductType],
        cRow: n,
        ...form,
      },
      productParts(m * n * k, recorder),
    );
    if (!direct) recordConversion(recorder, c, output, m * n);
  },
});

/** The sizes of a product, and the bits of its activations. */
interface Form {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly blockSize: number;
  readonly bits: number;
  readonly precision: number;
  /** Where rows must come out alike whatever their number is: 1 in tiles, 2 as tiles compute; else 0. */
  readonly alike: number;
}

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

/** Rows of activations up to which weights are streamed where rows must come out alike: more of them pay for unpacking. */
const mostStreamed = 4;

/** Rows of activations below which weights are unpacked for each. */
const manyRows = 4;

/** Activations as they are: packed where many rows meet the same weights, or weights that only panels unpack. */
function floats(recorder: Recorder, a: Operand, form: Form, whole: boolean): Activations {
  const { m, n, k, blockSize, bits } = form;
  const given = { values: 0, aScales: 0, aSums: 0, a: recorder.address(a), aType: typeOf(a), rows: 0 };
  const isRow = form.alike === 0 && m < manyRows && whole && bits !== 2 && blockSize >= 32;
  const row = Math.ceil(k / blockSize) * blockSize;
  if (isRow && m * row * 4 <= recorder.scratchBytes) return given;
  const rows = recorder.temporary(packedRowBytes({ batch: 1, m, k }));
  recordPacking(recorder, { a, m, n, k, rows });
  return { ...given, rows };
}
