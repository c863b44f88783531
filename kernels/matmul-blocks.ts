/** MatMulNBits: c = a · dequantized(b)ᵀ + bias, on activations that quantizeRows prepared. */
import { multiplyRows } from "./blocks-row";
import { multiplyTiles } from "./blocks-tile";
import { FLOAT16, FLOAT32 } from "./float-types";
import { MatMulBlocks } from "./jobs";
import { isTiled } from "./quantize-rows";
import { shareStart } from "./share";

/** The product; parts share the columns. */
export function matmulBlocks(at: usize, part: i32, parts: i32, scratch: usize): void {
  const job = changetype<MatMulBlocks>(at);
  if (isTiled(job.m, job.bits, job.blockSize)) {
    const panels = (job.n + 7) >> 3;
    const from = shareStart(panels, part, parts) << 3;
    const to = min(job.n, shareStart(panels, part + 1, parts) << 3);
    if (from < to) multiplyTiles(job, from, to, scratch);
    return;
  }
  // In fours: how columns are taken together must not depend on the parts.
  const fours = (job.n + 3) >> 2;
  const from = shareStart(fours, part, parts) << 2;
  const to = min(job.n, shareStart(fours, part + 1, parts) << 2);
  if (from >= to) return;
  if (job.scaleType == FLOAT32) multiplyRows<f32>(job, from, to, scratch);
  else if (job.scaleType == FLOAT16) multiplyRows<u16>(job, from, to, scratch);
  else multiplyRows<i16>(job, from, to, scratch);
}
