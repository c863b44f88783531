/**
 * Activations for products with quantized weights: integers of 16 or 8 bits, with a scale for each group of them.
 *
 * Weights of 4 bits stay as ONNX packs them, two to a byte; instead the activations are put in the order in which a vector of them
 * comes apart. Of every 32: for 16 bits the elements 0, 4, … 28, then 1, 5, … 29, and so on (nibbles of 16-bit lanes); for 8 bits the even
 * ones, then the odd ones (nibbles of bytes). Otherwise the order is their own. For tiles rows are woven in fours:
 * four bytes of the first row, four of the second, the third, the fourth, and again; and what a panel of weights meets lies together:
 * the first of a panel's depth from all rows, then the next.
 *
 * The sums say what a zero point of 1 takes away: those of the activations that meet a block of weights, or for 8 bits of every 32.
 */
import { readRow, widthOf } from "./float-types";
import { QuantizeRows } from "./jobs";
import { shareStart } from "./share";
import { largest } from "./simd";

/** Elements of a panel of weights in tiles: as many as fill 8 KiB. */
// @ts-ignore: decorator
@inline
export function panelDepth(precision: i32): i32 {
  return precision == 8 ? 1024 : 512;
}

/** True where products work in tiles: many rows, or weights that only tiles unpack. */
// @ts-ignore: decorator
@inline
export function isTiled(m: i32, bits: i32, blockSize: i32): bool {
  return m >= 12 || bits == 2 || blockSize < 32;
}

/** Activations that share a scale. */
// @ts-ignore: decorator
@inline
export function groupSize(precision: i32): i32 {
  return precision == 8 ? 32 : 256;
}

/** Activations that share a sum. */
// @ts-ignore: decorator
@inline
export function summedSize(blockSize: i32, precision: i32): i32 {
  return precision == 8 ? 32 : blockSize;
}

/** True where 4-bit weights are read as vectors, so that activations are permuted. */
// @ts-ignore: decorator
@inline
export function isPermuted(bits: i32, blockSize: i32): bool {
  return bits == 4 && blockSize >= 32;
}

/** Elements of a row with the last block's padding. */
// @ts-ignore: decorator
@inline
export function paddedLength(k: i32, blockSize: i32): i32 {
  return (k + blockSize - 1) & -blockSize; // a power of two
}

/** Quantizes rows; parts share the rows, fours of them where they are woven. */
export function quantizeRows(at: usize, part: i32, parts: i32, scratch: usize): void {
  const job = changetype<QuantizeRows>(at);
  const tiled = isTiled(job.m, job.bits, job.blockSize);
  const rows = tiled ? (job.m + 3) & ~3 : job.m;
  const length = paddedLength(job.k, job.blockSize);
  const group = groupSize(job.precision);
  const groups = (length + group - 1) / group;
  const end = shareStart(rows, part + 1, parts);
  for (let row = shareStart(rows, part, parts); row < end; row++) {
    // Where the row's values, scales and sums start; their four bytes lie `step` apart.
    const first = tiled ? row & ~3 : row;
    const step: usize = tiled ? 16 : 4;
    const within: usize = tiled ? (row & 3) << 2 : 0;
    const values = job.values + within + (tiled ? 0 : <usize>(row * length * (job.precision >> 3)));
    const scales = job.scales + ((<usize>(first * groups)) << 2) + within;
    const sums = job.sums + ((<usize>(first * (length / summedSize(job.blockSize, job.precision)))) << 2) + within;
    quantizeRow(job, row, rows, length, group, values, scales, sums, step, scratch);
  }
}

function quantizeRow(
  job: QuantizeRows, row: i32, rows: i32, length: i32, group: i32,
  values: usize, scales: usize, sums: usize, step: usize, scratch: usize,
): void {
  const limit: f32 = job.precision == 8 ? 127 : 32767;
  const width = widthOf(job.type);
  const source = job.source + row * job.sourceRow * width;
  const summed = summedSize(job.blockSize, job.precision);
  const piece = min(summed, group);
  const bytes = job.precision >> 3;
  const tiled = step != 4;
  const firstValue = values;
  const depth = panelDepth(job.precision);
  let total: f32 = 0;
  let left = summed;
  for (let start = 0; start < length; start += group, scales += step) {
    const size = min(group, length - start);
    const there = row < job.m ? max(0, min(size, job.k - start)) : 0;
    if (there < size) memory.fill(scratch, 0, (<usize>size) << 2);
    readRow(source + start * width, job.type, scratch, there);
    const highest = largestMagnitude(scratch, size);
    const scale = highest / limit;
    store<f32>(scales, scale);
    if (tiled && !(start & (depth - 1))) {
      values = firstValue + <usize>((start * rows + (row & ~3) * min(depth, length - start)) * bytes);
    }
    for (let done = 0; done < size; done += piece) {
      const factor: f32 = highest > 1e-30 ? limit / highest : 0;
      const sum = <f32>quantizePiece(job, scratch + ((<usize>done) << 2), piece, factor, values, step);
      values += <usize>(piece * bytes) * (step >> 2);
      total += sum * scale;
      left -= piece;
      if (left == 0) {
        store<f32>(sums, total);
        sums += step;
        total = 0;
        left = summed;
      }
    }
  }
}

function largestMagnitude(p: usize, count: i32): f32 {
  let top = f32x4.splat(0);
  for (const end = p + ((<usize>count) << 2); p < end; p += 16) top = f32x4.max(top, f32x4.abs(v128.load(p)));
  return largest(top);
}

/** `count` elements at p, times `factor`, as integers in the order wanted; their sum. */
function quantizePiece(job: QuantizeRows, p: usize, count: i32, factor: f32, values: usize, step: usize): i32 {
  const f = f32x4.splat(factor);
  const permuted = isPermuted(job.bits, job.blockSize);
  let total = i32x4.splat(0);
  for (const end = p + ((<usize>count) << 2); p < end; p += 64) {
    let a = nearest(v128.load(p), f), b = nearest(v128.load(p, 16), f);
    let c = nearest(v128.load(p, 32), f), d = nearest(v128.load(p, 48), f);
    total = i32x4.add(total, i32x4.add(i32x4.add(a, b), i32x4.add(c, d)));
    if (!permuted) {
      values = putVector(i16x8.narrow_i32x4_s(a, b), values, step);
      values = putVector(i16x8.narrow_i32x4_s(c, d), values, step);
      continue;
    }
    p += 64;
    const e = nearest(v128.load(p), f), g = nearest(v128.load(p, 16), f);
    const h = nearest(v128.load(p, 32), f), i = nearest(v128.load(p, 48), f);
    total = i32x4.add(total, i32x4.add(i32x4.add(e, g), i32x4.add(h, i)));
    if (job.precision == 8) {
      const low = i8x16.narrow_i16x8_s(i16x8.narrow_i32x4_s(a, b), i16x8.narrow_i32x4_s(c, d));
      const high = i8x16.narrow_i16x8_s(i16x8.narrow_i32x4_s(e, g), i16x8.narrow_i32x4_s(h, i));
      values = putVector(v128.shuffle<i8>(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), values, step);
      values = putVector(v128.shuffle<i8>(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), values, step);
      continue;
    }
    const low = i16x8.narrow_i32x4_s(a, b), low2 = i16x8.narrow_i32x4_s(c, d); // 0 to 7, 8 to 15
    const high = i16x8.narrow_i32x4_s(e, g), high2 = i16x8.narrow_i32x4_s(h, i); // 16 to 23, 24 to 31
    // Every second of them, twice: what is left is every fourth.
    const even = v128.shuffle<i16>(low, low2, 0, 2, 4, 6, 8, 10, 12, 14), odd = v128.shuffle<i16>(low, low2, 1, 3, 5, 7, 9, 11, 13, 15);
    const even2 = v128.shuffle<i16>(high, high2, 0, 2, 4, 6, 8, 10, 12, 14), odd2 = v128.shuffle<i16>(high, high2, 1, 3, 5, 7, 9, 11, 13, 15);
    values = putVector(v128.shuffle<i16>(even, even2, 0, 2, 4, 6, 8, 10, 12, 14), values, step);
    values = putVector(v128.shuffle<i16>(odd, odd2, 0, 2, 4, 6, 8, 10, 12, 14), values, step);
    values = putVector(v128.shuffle<i16>(even, even2, 1, 3, 5, 7, 9, 11, 13, 15), values, step);
    values = putVector(v128.shuffle<i16>(odd, odd2, 1, 3, 5, 7, 9, 11, 13, 15), values, step);
  }
  total = i32x4.add(total, v128.shuffle<i32>(total, total, 2, 3, 0, 1));
  return i32x4.extract_lane(total, 0) + i32x4.extract_lane(total, 1);
}

// @ts-ignore: decorator
@inline
function nearest(a: v128, factor: v128): v128 {
  return i32x4.trunc_sat_f32x4_s(f32x4.nearest(f32x4.mul(a, factor)));
}

/** Writes four times four bytes `step` bytes apart; the address behind them. */
// @ts-ignore: decorator
@inline
function putVector(a: v128, target: usize, step: usize): usize {
  if (step == 4) {
    v128.store(target, a);
    return target + 16;
  }
  v128.store_lane<i32>(target, a, 0);
  v128.store_lane<i32>(target, a, 1, 16);
  v128.store_lane<i32>(target, a, 2, 32);
  v128.store_lane<i32>(target, a, 3, 48);
  return target + 64;
}
