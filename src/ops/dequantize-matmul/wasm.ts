/** DequantizeMatMul on WASM: 8 and 4 bits as they lie, with scales for all, by column, or by blocks of rows and column. */
import type { CallOf } from "../../graph/kernel.js";
import { levelCode } from "../../wasm-kernels/jobs.js";
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { type Levels, product, single } from "../shared/wasm/matmul.js";
import { DequantizeMatMul } from "./op.js";

type LevelType = keyof typeof levelCode;

/** Rows that are summed before the scales are applied, where all have the same: ranges of rows are made of these. */
const sharedRows = 256;

/** How the scales lie, or why they cannot be served. */
function levelsOf({ inputs, outputs, attrs }: CallOf<typeof DequantizeMatMul>): Levels | string {
  const { A: a, B: b, scale, zero_point: zero, bias } = inputs;
  if (a.shape.length < 2) return "A is a vector";
  if (outputs.Y.view.size === 0 || b.shape[0] === 0) return "there is nothing to compute";
  if (![a, b, scale, zero, bias].every((operand) => operand === undefined || operand.contiguous))
    return "an operand has gaps";
  const n = b.shape[1];
  if (b.type.endsWith("4") && n % 2 !== 0) return "rows of 4-bit weights end within a byte";
  const shared = { scale, zero, code: levelCode[b.type as LevelType], block: sharedRows, scaleK: 0 };
  if (scale.view.size === 1) return { ...shared, scaleN: 0 };
  const { block_size: blockSize, axis } = attrs;
  const isColumn = axis === 1 || axis === -1;
  if (blockSize === 0) return isColumn ? { ...shared, scaleN: 1 } : "scales vary by row";
  return isColumn ? "blocks lie along rows" : { ...shared, block: blockSize, scaleK: n, scaleN: 1 };
}

/** A · DequantizeLinear(B) + bias. */
export const dequantizeMatmul: WasmKernel = product([DequantizeMatMul], (call) => {
  const levels = levelsOf(call);
  if (typeof levels === "string") return levels;
  const { A: a, B: b, bias } = call.inputs;
  const { Y: output } = call.outputs;
  const [k, n] = b.shape;
  const strides = { aRow: k, aColumn: 1, bK: n, bN: 1 };
  return { a, b, bias, output, m: output.view.size / n, n, k, ...strides, ...single, levels };
});
