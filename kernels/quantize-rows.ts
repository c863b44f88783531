/**
 * Activations for products with quantized weights: integers of 16 or 8 bits, with a scale for each group of them.
 *
 * Weights of 4 bits stay as ONNX packs them, two to a byte; instead the activations are put in the order in which a vector of them
 * comes apart. Of every 32: for 16 bits the elements 0, 4, … 28, then 1, 5, … 29, and so on (nibbles of 16-bit lanes); for 8 bits the even
 * ones, then the odd ones (nibbles of bytes). For few rows and weights of 8 bits it is the even ones of every 16, then the odd ones (bytes of
 * 16-bit lanes). Otherwise the order is their own. For tiles rows are woven in fours:
 * four bytes of the first row, four of the second, the third, the fourth, and again; and what a panel of weights meets lies together:
 * the first of a panel's depth from all rows, then the next. With 8 bits every 32 of four rows have 16 bytes before them: what a zero
 * point of 8 takes away from the sums of a row's even and odd pairs of bytes, as 16 bits.
 *
 * The sums say what a zero point of 1 takes away: those of the activations that meet a block of weights, or for 8 bits of every 32.
 */
import { readRow, widthOf } from "./float-types";
import { shareStart } from "./share";
import { largest } from "./simd";

/**
 * Activations for `matmulBlocks`: rows in blocks of `blockSize`, each with its own scale. Rows lie in the order that the weights' bits
 * want; for many rows four of them are woven together. The three targets are as large as `quantizedBytes` says.
 */
@unmanaged
export class QuantizeRows {
  source: usize; // [m, k]
  values: usize;
  scales: usize;
  sums: usize;
  type: i32; // elementCode of source
  m: i32;
  k: i32;
  sourceRow: i32; // stride
  blockSize: i32; // of the weights
  bits: i32; // of the weights: 2, 4, 8
  precision: i32; // bits of the activations: 16, or 8 (weights of 4 bits, blocks of 32 or more, the relaxed build only)
  alike: i32; // 1: woven whatever m is; 2: not woven whatever m is
}

/** Elements of a panel of weights in tiles: as many as fill 8 KiB. */
// @ts-ignore: decorator
@inline
export function panelDepth(precision: i32): i32 {
  return precision == 8 ? 1024 : 512;
}

/** True where products work in tiles: many rows, or weights that only tiles unpack; with `alike` they do, or do not, whatever m is. */
// @ts-ignore: decorator
@inline
export function isTiled(m: i32, bits: i32, blockSize: i32, alike: i32): bool {
  return alike != 2 && (alike == 1 || m >= 12 || bits == 2 || blockSize < 32);
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

/** True where rows that are not woven meet 8-bit weights as halves of 16-bit lanes: even ones of every 16 come first. */
// @ts-ignore: decorator
@inline
function isHalved(job: QuantizeRows): bool {
  return job.bits == 8 && !isTiled(job.m, job.bits, job.blockSize, job.alike) && job.alike == 0;
}

/** Elements of a row with the last block's padding. */
// @ts-ignore: decorator
@inline
export function paddedLength(k: i32, blockSize: i32): i32 {
  return (k + blockSize - 1) & -blockSize; // a power of two
}

/** Bytes of `count` woven elements of 8 bits, a multiple of 32 for each row. */
// @ts-ignore: decorator
@inline
export function tiledBytes(count: i32): usize {
  return <usize>(count + (count >> 3));
}

/**
 * Bytes of a row of `length` elements of 8 bits that is not woven: every 32 have behind them their scale, their sum, what a quarter of a zero
 * point of 8 takes away, and 4 idle bytes.
 */
// @ts-ignore: decorator
@inline
export function byteRow(length: i32): usize {
  return <usize>((length >> 5) * 48);
}

/** Quantizes rows; parts share the rows, fours of them where they are woven. */
export function quantizeRows(job: QuantizeRows, part: i32, parts: i32, scratch: usize): void {
  const tiled = isTiled(job.m, job.bits, job.blockSize, job.alike);
  const rows = tiled ? (job.m + 3) & ~3 : job.m;
  const length = paddedLength(job.k, job.blockSize);
  const group = groupSize(job.precision);
  const groups = (length + group - 1) / group;
  const end = shareStart(rows, part + 1, parts);
  for (let row = shareStart(rows, part, parts); row < end; row++) {
    if (job.precision == 8 && !tiled) {
      const values = job.values + row * byteRow(length);
      quantizeRow(job, row, rows, length, group, values, values + 32, values + 36, 4, 48, scratch);
      continue;
    }
    // Where the row's values, scales and sums start; their four bytes lie `step` apart.
    const first = tiled ? row & ~3 : row;
    const step: usize = tiled ? 16 : 4;
    const within: usize = tiled ? (row & 3) << 2 : 0;
    const values = job.values + within + (tiled ? 0 : (<usize>(row * length)) << 1);
    const scales = job.scales + ((<usize>(first * groups)) << 2) + within;
    const sums = job.sums + ((<usize>(first * (length / summedSize(job.blockSize, job.precision)))) << 2) + within;
    quantizeRow(job, row, rows, length, group, values, scales, sums, step, step, scratch);
  }
}

/** The largest group as float32. */
export function quantizeRowsScratch(job: QuantizeRows): usize {
  return <usize>groupSize(16) << 2;
}

/** Rows of a job with those that fill up a four. */
// @ts-ignore: decorator
@inline
function rowsOf(job: QuantizeRows): i32 {
  return isTiled(job.m, job.bits, job.blockSize, job.alike) ? (job.m + 3) & ~3 : job.m;
}

/**
 * Bytes of `values`.
 * @host
 */
export function quantizedValueBytes(job: QuantizeRows): usize {
  const length = paddedLength(job.k, job.blockSize);
  if (job.precision == 16) return <usize>rowsOf(job) * length * 2;
  return isTiled(job.m, job.bits, job.blockSize, job.alike) ? tiledBytes(rowsOf(job) * length) : rowsOf(job) * byteRow(length);
}

/**
 * Bytes of `scales`.
 * @host
 */
export function quantizedScaleBytes(job: QuantizeRows): usize {
  const group = groupSize(job.precision);
  return <usize>rowsOf(job) * ((paddedLength(job.k, job.blockSize) + group - 1) / group) * 4;
}

/**
 * Bytes of `sums`.
 * @host
 */
export function quantizedSumBytes(job: QuantizeRows): usize {
  return <usize>rowsOf(job) * (paddedLength(job.k, job.blockSize) / summedSize(job.blockSize, job.precision)) * 4;
}

function quantizeRow(
  job: QuantizeRows, row: i32, rows: i32, length: i32, group: i32,
  values: usize, scales: usize, sums: usize, step: usize, scaleStep: usize, scratch: usize,
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
  for (let start = 0; start < length; start += group, scales += scaleStep) {
    const size = min(group, length - start);
    const there = row < job.m ? max(0, min(size, job.k - start)) : 0;
    if (there < size) memory.fill(scratch, 0, (<usize>size) << 2);
    // What lies behind the last row, or behind a row's end, may lie behind the memory's: not even no bytes can be copied from there.
    if (there > 0) readRow(source + start * width, job.type, scratch, there);
    const highest = largestMagnitude(scratch, size);
    const scale = highest / limit;
    // Infinity and NaN are in the scale; no integer stands for them.
    if (!(highest < Infinity)) memory.fill(scratch, 0, (<usize>size) << 2);
    store<f32>(scales, scale);
    if (tiled && !(start & (depth - 1))) {
      const before = start * rows + (row & ~3) * min(depth, length - start);
      values = firstValue + (bytes == 1 ? tiledBytes(before) : (<usize>before) << 1);
    }
    for (let done = 0; done < size; done += piece) {
      const factor: f32 = highest > 1e-30 ? limit / highest : 0;
      let sum: f32;
      if (bytes == 1) {
        sum = <f32>quantizeBytes(scratch, factor, tiled ? values + 16 : values, step, tiled ? values : 0);
        values += tiled ? 144 : 48;
      } else {
        sum = <f32>quantizePiece(job, scratch + ((<usize>done) << 2), piece, factor, values, step);
        values += <usize>(piece * bytes) * (step >> 2);
      }
      total += sum * scale;
      left -= piece;
      if (left == 0) {
        store<f32>(sums, total);
        if (bytes == 1 && !tiled) store<f32>(sums + 4, -2 * total);
        sums += scaleStep;
        total = 0;
        left = summed;
      }
    }
  }
}

/** NaN where one is NaN: as integers, magnitudes have the order of the numbers, and NaN lies above all. */
function largestMagnitude(p: usize, count: i32): f32 {
  const magnitude = i32x4.splat(0x7fffffff);
  let top = i32x4.splat(0);
  for (const end = p + ((<usize>count) << 2); p < end; p += 16) top = i32x4.max_s(top, v128.and(v128.load(p), magnitude));
  return largest(top);
}

/** 32 elements at p, times `factor`, as bytes, those with even places first; their sum. At `start`, if not 0, what tiles begin with. */
function quantizeBytes(p: usize, factor: f32, values: usize, step: usize, start: usize): i32 {
  const f = f32x4.splat(factor);
  const low = i8x16.narrow_i16x8_s(eight(p, f), eight(p + 32, f)), high = i8x16.narrow_i16x8_s(eight(p + 64, f), eight(p + 96, f));
  const even = v128.shuffle<i8>(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const odd = v128.shuffle<i8>(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  values = putVector(even, values, step);
  putVector(odd, values, step);
  // Pairs of bytes, then every second of the pairs.
  let sums = i16x8.add(i16x8.extadd_pairwise_i8x16_s(even), i16x8.extadd_pairwise_i8x16_s(odd));
  sums = i16x8.add(sums, v128.shuffle<i32>(sums, sums, 2, 3, 0, 1));
  sums = i16x8.add(sums, v128.shuffle<i32>(sums, sums, 1, 0, 3, 2));
  if (start) v128.store_lane<i32>(start, i16x8.mul(sums, i16x8.splat(-8)), 0);
  return i32x4.extract_lane(i32x4.extadd_pairwise_i16x8_s(sums), 0);
}

/** Eight elements at p, times f, as 16 bits. */
// @ts-ignore: decorator
@inline
function eight(p: usize, f: v128): v128 {
  return i16x8.narrow_i32x4_s(nearest(v128.load(p), f), nearest(v128.load(p, 16), f));
}

/** `count` elements at p, times `factor`, as integers of 16 bits in the order wanted; their sum. */
function quantizePiece(job: QuantizeRows, p: usize, count: i32, factor: f32, values: usize, step: usize): i32 {
  const f = f32x4.splat(factor);
  const permuted = isPermuted(job.bits, job.blockSize), halved = isHalved(job);
  let total = i32x4.splat(0);
  for (const end = p + ((<usize>count) << 2); p < end; p += 64) {
    let a = nearest(v128.load(p), f), b = nearest(v128.load(p, 16), f);
    let c = nearest(v128.load(p, 32), f), d = nearest(v128.load(p, 48), f);
    total = i32x4.add(total, i32x4.add(i32x4.add(a, b), i32x4.add(c, d)));
    if (!permuted) {
      const first = i16x8.narrow_i32x4_s(a, b), second = i16x8.narrow_i32x4_s(c, d);
      values = putVector(halved ? v128.shuffle<i16>(first, second, 0, 2, 4, 6, 8, 10, 12, 14) : first, values, step);
      values = putVector(halved ? v128.shuffle<i16>(first, second, 1, 3, 5, 7, 9, 11, 13, 15) : second, values, step);
      continue;
    }
    p += 64;
    const e = nearest(v128.load(p), f), g = nearest(v128.load(p, 16), f);
    const h = nearest(v128.load(p, 32), f), i = nearest(v128.load(p, 48), f);
    total = i32x4.add(total, i32x4.add(i32x4.add(e, g), i32x4.add(h, i)));
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

/** The integers nearest to a · factor, which are below 2^22: next to a number of 24 bits there is no room for fractions. */
// @ts-ignore: decorator
@inline
function nearest(a: v128, factor: v128): v128 {
  return i32x4.sub(f32x4.add(f32x4.mul(a, factor), f32x4.splat(12582912)), i32x4.splat(0x4b400000));
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
