/** MatMulInteger on WASM: bytes as they lie, B one matrix, zero points for all, by row of A or by column of B. */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { productOf } from "../shared/rules/layout.js";
import { productParts } from "../shared/wasm/matmul.js";
import { MatMulInteger } from "./op.js";

/** The rows of A, all batches together. */
const rowsOf = ({ shape }: Operand): number => productOf(shape.slice(0, -1));

/** True where a zero point is left out, serves all, or has one entry for each of `lines`. */
const isServed = (zero: Operand | undefined, lines: number): boolean =>
  zero === undefined || zero.view.size === 1 || (zero.view.size === lines && zero.contiguous);

function reasonAgainst({ inputs, outputs }: CallOf<typeof MatMulInteger>): string | undefined {
  const { A: a, B: b, a_zero_point: aZero, b_zero_point: bZero } = inputs;
  if (a.shape.length < 2 || b.shape.length < 2) return "an operand is a vector";
  if (productOf(b.shape.slice(0, -2)) !== 1) return "B is several matrices";
  if (!a.contiguous || !b.contiguous) return "matrices have gaps";
  if (outputs.Y.view.size === 0 || a.shape.at(-1) === 0) return "there is nothing to compute";
  return isServed(aZero, rowsOf(a)) && isServed(bZero, b.shape.at(-1)!) ? undefined : "zero points vary otherwise";
}

/** (A − a_zero_point) · (B − b_zero_point). */
export const matmulInteger: WasmKernel = wasmKernel([MatMulInteger], {
  accepts: (call) => reasonAgainst(call) ?? true,
  record({ inputs, outputs }, recorder) {
    const { A: a, B: b, a_zero_point: aZero, b_zero_point: bZero } = inputs;
    const [k, n] = b.shape.slice(-2);
    const m = rowsOf(a);
    const stepOf = (zero: Operand | undefined): number => (zero === undefined || zero.view.size === 1 ? 0 : 1);
    recorder.run(
      "matmulInteger",
      {
        a: recorder.address(a),
        b: recorder.address(b),
        c: recorder.address(outputs.Y),
        aZero: aZero === undefined ? 0 : recorder.address(aZero),
        bZero: bZero === undefined ? 0 : recorder.address(bZero),
        aSigned: a.type === "int8" ? 1 : 0,
        bSigned: b.type === "int8" ? 1 : 0,
        aZeroStep: stepOf(aZero),
        bZeroStep: stepOf(bZero),
        m,
        n,
        k,
        cRow: n,
      },
      productParts(m * n * k, recorder),
    );
  },
});
