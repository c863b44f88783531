/** MatMulNBits: c = a · dequantized(b)ᵀ + bias, on activations that quantizeRows prepared, or on those that are given. */
import { floatsBytes, multiplyFewFloats, multiplyFloats } from "./blocks-float";
import { multiplyRowsAlike } from "./blocks-alike";
import { multiplyRows, rowsBytes } from "./blocks-row";
import { multiplyTiles, tilesBytes } from "./blocks-tile";
import { FLOAT16, FLOAT32 } from "./codes";
import { isTiled } from "./quantize-rows";
import { shareStart } from "./share";

/** c = a · dequantized(b)ᵀ + bias: MatMulNBits with b as ONNX lays it out. */
@unmanaged
export class MatMulBlocks {
  values: usize; // what quantizeRows made, with the same m, k, blockSize, bits, precision
  aScales: usize;
  aSums: usize;
  b: usize; // uint8[n, blocks, blockSize · bits / 8]
  scales: usize; // [n, blocks]
  zeros: usize; // [n, ceil(blocks · bits / 8)] packed, or [n, blocks] of zerosType; optional: 2 ^ (bits - 1)
  bias: usize; // float32[n], optional
  c: usize; // float32[m, n]
  scaleType: i32; // elementCode
  zerosType: i32; // -1 for packed uint8, else elementCode
  m: i32;
  n: i32;
  k: i32;
  cRow: i32; // stride
  blockSize: i32;
  bits: i32;
  precision: i32; // of the activations: 8 or 16 bits in blocks, or 32 for float32 as it is, without the three first fields
  alike: i32; // as quantizeRows was told; 2: as tiles compute, for precision 16, 8 or 4 bits, blocks of 32 or more, float32 scales, no zeros
  a: usize; // [m, k], for precision 32
  aType: i32; // elementCode
  rows: usize; // a, packed by packRows; 0 for few rows, whole zero points, and blocks of 32 or more of 4 or 8 bits
  bRow: i32; // bytes of a row of b; 0: those of whole blocks. Others are for precision 32, one block, and k a multiple of 32 where rows is 0
  zerosRow: i32; // bits of a row of packed zero points; 0: those of whole bytes. Others are for precision 32
}

/** The product; parts share the columns. */
export function matmulBlocks(job: MatMulBlocks, part: i32, parts: i32, scratch: usize): void {
  if (job.precision == 32 ? job.rows != 0 : isTiled(job.m, job.bits, job.blockSize, job.alike)) {
    const panels = (job.n + 7) >> 3;
    const from = shareStart(panels, part, parts) << 3;
    const to = min(job.n, shareStart(panels, part + 1, parts) << 3);
    if (from >= to) return;
    if (job.precision == 32) multiplyFloats(job, from, to, scratch);
    else multiplyTiles(job, from, to, scratch);
    return;
  }
  // In fours: how columns are taken together must not depend on the parts.
  const fours = (job.n + 3) >> 2;
  const from = shareStart(fours, part, parts) << 2;
  const to = min(job.n, shareStart(fours, part + 1, parts) << 2);
  if (from >= to) return;
  if (job.alike == 2) multiplyRowsAlike(job, from, to);
  else if (job.precision == 32) multiplyFewFloats(job, from, to, scratch);
  else if (job.scaleType == FLOAT32) multiplyRows<f32>(job, from, to, scratch);
  else if (job.scaleType == FLOAT16) multiplyRows<u16>(job, from, to, scratch);
  else multiplyRows<i16>(job, from, to, scratch);
}

/** What tiles need, or few rows. */
export function matmulBlocksScratch(job: MatMulBlocks): usize {
  if (job.precision == 32) return floatsBytes(job);
  return isTiled(job.m, job.bits, job.blockSize, job.alike) ? tilesBytes(job) : rowsBytes(job);
}

/** Products of one value with several weights. */
@unmanaged
export class SharedBlocks {
  first: usize; // a MatMulBlocks
  second: usize; // the same
  third: usize; // the same, or 0 where there are two
  scratch: i32; // the most bytes that one of them needs
}

/** All of the products; parts share the columns of each. */
export function matmulBlocksShared(job: SharedBlocks, part: i32, parts: i32, scratch: usize): void {
  matmulBlocks(changetype<MatMulBlocks>(job.first), part, parts, scratch);
  matmulBlocks(changetype<MatMulBlocks>(job.second), part, parts, scratch);
  if (job.third) matmulBlocks(changetype<MatMulBlocks>(job.third), part, parts, scratch);
}

export function matmulBlocksSharedScratch(job: SharedBlocks): usize {
  return job.scratch;
}
