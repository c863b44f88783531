/**
 * Products with weights of 4 bits that stand for entries of a table (bitsandbytes' FP4 and NF4): a column of weights is looked up once, as float32 in scratch,
 * and meets all rows. Every row comes out alike, whatever their number is.
 */
import { FLOAT32 } from "./codes";
import { readOne, readRow, widthOf } from "./float-types";
import { shareStart } from "./share";
import { fma, interleaveHigh, interleaveLow, sum, sums, zero } from "./simd";

/** MatMulBnb4: c = a · table[b]ᵀ, each block times its scale. */
@unmanaged
export class MatMulTable {
  a: usize; // [m, k]
  b: usize; // uint8[n, k / 2]; the first of two weights is the upper half of a byte
  scales: usize; // [n, k / blockSize]
  table: usize; // float32[16]
  c: usize; // float32[m, n]
  aType: i32; // elementCode
  scaleType: i32; // elementCode
  m: i32;
  n: i32;
  k: i32; // a multiple of blockSize
  blockSize: i32; // a multiple of 16
}

/** The product; parts share the columns. */
export function matmulTable(job: MatMulTable, part: i32, parts: i32, scratch: usize): void {
  const from = shareStart(job.n, part, parts);
  const to = shareStart(job.n, part + 1, parts);
  if (from >= to) return;
  const rowBytes = (<usize>job.k) << 2;
  const rows = job.aType == FLOAT32 ? job.a : scratch + rowBytes;
  if (job.aType != FLOAT32) {
    for (let row = 0; row < job.m; row++)
      readRow(job.a + <usize>row * job.k * widthOf(job.aType), job.aType, rows + <usize>row * rowBytes, job.k);
  }
  for (let column = from; column < to; column++) {
    lookUp(job, column, scratch);
    let c = job.c + ((<usize>column) << 2);
    const step = (<usize>job.n) << 2;
    let row = 0;
    let x = rows;
    for (; row + 4 <= job.m; row += 4, x += 4 * rowBytes) {
      const four = dotFour(x, rowBytes, scratch);
      store<f32>(c, f32x4.extract_lane(four, 0));
      store<f32>(c + step, f32x4.extract_lane(four, 1));
      store<f32>(c + 2 * step, f32x4.extract_lane(four, 2));
      store<f32>(c + 3 * step, f32x4.extract_lane(four, 3));
      c += 4 * step;
    }
    for (; row < job.m; row++, x += rowBytes, c += step) store<f32>(c, dotOne(x, rowBytes, scratch));
  }
}

/** Bytes of scratch: a column of weights, and rows that are not float32. */
export function matmulTableScratch(job: MatMulTable): usize {
  const rows = job.aType == FLOAT32 ? 0 : job.m;
  return (<usize>job.k) * (rows + 1) * 4;
}

/** A column of weights as float32. The bytes of the table's numbers lie in four vectors, first bytes in the first, and an index finds its byte in each. */
function lookUp(job: MatMulTable, column: i32, target: usize): void {
  const t = job.table;
  const a = v128.load(t), b = v128.load(t, 16), c = v128.load(t, 32), d = v128.load(t, 48);
  const ab = v128.shuffle<i8>(a, b, 0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const cd = v128.shuffle<i8>(c, d, 0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const ef = v128.shuffle<i8>(a, b, 2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
  const gh = v128.shuffle<i8>(c, d, 2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
  const first = v128.shuffle<i64>(ab, cd, 0, 2), second = v128.shuffle<i64>(ab, cd, 1, 3);
  const third = v128.shuffle<i64>(ef, gh, 0, 2), fourth = v128.shuffle<i64>(ef, gh, 1, 3);
  const blocks = job.k / job.blockSize;
  const width = widthOf(job.scaleType);
  const low = i8x16.splat(15);
  let w = job.b + <usize>column * (job.k >> 1);
  let p = job.scales + <usize>(column * blocks * width);
  for (let block = 0; block < blocks; block++, p += width) {
    const scale = f32x4.splat(readOne(p, job.scaleType));
    const end = w + (job.blockSize >> 1);
    for (; w < end; w += 8, target += 64) {
      const q = v128.load64_zero(w);
      const upper = i8x16.shr_u(q, 4), lower = v128.and(q, low);
      const index = interleaveLow(upper, lower);
      const e = i8x16.swizzle(first, index), f = i8x16.swizzle(second, index);
      const g = i8x16.swizzle(third, index), h = i8x16.swizzle(fourth, index);
      const efLow = interleaveLow(e, f);
      const efHigh = interleaveHigh(e, f);
      const ghLow = interleaveLow(g, h);
      const ghHigh = interleaveHigh(g, h);
      v128.store(target, f32x4.mul(scale, v128.shuffle<i16>(efLow, ghLow, 0, 8, 1, 9, 2, 10, 3, 11)));
      v128.store(target, f32x4.mul(scale, v128.shuffle<i16>(efLow, ghLow, 4, 12, 5, 13, 6, 14, 7, 15)), 16);
      v128.store(target, f32x4.mul(scale, v128.shuffle<i16>(efHigh, ghHigh, 0, 8, 1, 9, 2, 10, 3, 11)), 32);
      v128.store(target, f32x4.mul(scale, v128.shuffle<i16>(efHigh, ghHigh, 4, 12, 5, 13, 6, 14, 7, 15)), 48);
    }
  }
}

/** A row · a column of so many bytes, in two sums. */
function dotOne(x: usize, bytes: usize, y: usize): f32 {
  let a = zero(), b = zero();
  for (const end = x + bytes; x < end; x += 32, y += 32) {
    a = fma(v128.load(x), v128.load(y), a);
    b = fma(v128.load(x, 16), v128.load(y, 16), b);
  }
  return sum(f32x4.add(a, b));
}

/** Four rows · a column, each summed up as one alone is. */
function dotFour(x: usize, bytes: usize, y: usize): v128 {
  let a = zero(), b = zero(), c = zero(), d = zero(), e = zero(), f = zero(), g = zero(), h = zero();
  for (const end = x + bytes; x < end; x += 32, y += 32) {
    const one = v128.load(y), other = v128.load(y, 16);
    let row = x;
    a = fma(v128.load(row), one, a);
    b = fma(v128.load(row, 16), other, b);
    row += bytes;
    c = fma(v128.load(row), one, c);
    d = fma(v128.load(row, 16), other, d);
    row += bytes;
    e = fma(v128.load(row), one, e);
    f = fma(v128.load(row, 16), other, f);
    row += bytes;
    g = fma(v128.load(row), one, g);
    h = fma(v128.load(row, 16), other, h);
  }
  return sums(f32x4.add(a, b), f32x4.add(c, d), f32x4.add(e, f), f32x4.add(g, h));
}
