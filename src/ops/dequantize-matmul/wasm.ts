/** DequantizeMatMul on WASM: 8 and 4 bits as they lie, with scales for all, by column, or by blocks of rows and column. */
import { levelCode } from "../../kernels/jobs.js";
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { type Levels, recordProduct } from "../wasm-matmul.js";

type LevelType = keyof typeof levelCode;

/** Rows that are summed before the scales are applied, where all have the same: ranges of rows are made of these. */
const sharedRows = 256;

/** How the scales lie, or why they cannot be served. */
function plan({ inputs: [a, b, scale, zero, bias], outputs: [output], attrs }: KernelCall): Levels | string {
  if (a!.shape.length < 2) return "A is a vector";
  if (output!.view.size === 0 || b!.shape[0] === 0) return "there is nothing to compute";
  if (![a!, b!, scale!, zero, bias].every((operand) => operand === undefined || operand.contiguous))
    return "an operand has gaps";
  const n = b!.shape[1];
  if (b!.type.endsWith("4") && n % 2 !== 0) return "rows of 4-bit weights end within a byte";
  const shared = { scale: scale!, zero, code: levelCode[b!.type as LevelType], block: sharedRows, scaleK: 0 };
  if (scale!.view.size === 1) return { ...shared, scaleN: 0 };
  const [blockSize, axis] = [attrs["block_size"] as number, attrs["axis"] as number];
  const isColumn = axis === 1 || axis === -1;
  if (blockSize === 0) return isColumn ? { ...shared, scaleN: 1 } : "scales vary by row";
  return isColumn ? "blocks lie along rows" : { ...shared, block: blockSize, scaleK: n, scaleN: 1 };
}

/** A · DequantizeLinear(B) + bias. */
export const dequantizeMatmul: WasmKernel = {
  op: "DequantizeMatMul",
  domain: "insitu",
  accepts(call) {
    const levels = plan(call);
    return typeof levels === "string" ? levels : true;
  },
  record(call, recorder) {
    const [a, b, , , bias] = call.inputs;
    const [output] = call.outputs;
    const [k, n] = b!.shape;
    const m = output!.view.size / n;
    const one = { batch: 1, aBatch: 0, bBatch: 0 };
    const strides = { aRow: k, aColumn: 1, bK: n, bN: 1 };
    const levels = plan(call) as Levels;
    recordProduct(recorder, { a: a!, b: b!, bias, output: output!, m, n, k, ...strides, ...one, levels });
  },
};
