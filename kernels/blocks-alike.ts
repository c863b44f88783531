/**
 * Few rows of activations of 16 bits times rows of block-quantized weights, bit for bit as tiles compute them: integers are summed over a
 * step, and the steps of a column are added up one after another, times the scales of column and row. Weights are read as they lie. Four rows
 * of 8-bit weights, or two rows, meet two columns, a single row four. For weights of 8 or 4 bits with float32 scales and no zero points, in blocks of 32 or more.
 */
import { blocksOf, weightBytes } from "./blocks";
import { MatMulBlocks } from "./matmul-blocks";
import { paddedLength } from "./quantize-rows";
import { fma, zero } from "./simd";

/** All rows of c, columns from `from` to `to`: a few columns of weights serve every row before the next are read. */
export function multiplyRowsAlike(job: MatMulBlocks, from: i32, to: i32): void {
  if (job.bits == 8) multiply<u8>(job, from, to);
  else multiply<u16>(job, from, to);
}

/** B is u8 for weights of 8 bits, u16 for weights of 4, four to 16 bits. */
function multiply<B>(job: MatMulBlocks, from: i32, to: i32): void {
  for (let column = from; column < to; column += 4) {
    const end = min(column + 4, to);
    let row = 0;
    if (sizeof<B>() == 1) {
      for (; row + 3 <= job.m; row += 4) {
        for (let first = column; first < end; first += 2) fourRows(job, row, first, min(first + 1, end - 1));
      }
    }
    for (; row + 2 <= job.m; row += 2) {
      for (let first = column; first < end; first += 2) twoRows<B>(job, row, first, min(first + 1, end - 1));
    }
    if (row < job.m) oneRow<B>(job, row, column, end - column);
  }
}

/** The sums of four vectors of integers, one a lane. */
// @ts-ignore: decorator
@inline
function integerSums(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab = i32x4.add(v128.shuffle<i32>(a, b, 0, 4, 1, 5), v128.shuffle<i32>(a, b, 2, 6, 3, 7));
  const cd = i32x4.add(v128.shuffle<i32>(c, d, 0, 4, 1, 5), v128.shuffle<i32>(c, d, 2, 6, 3, 7));
  return i32x4.add(v128.shuffle<i64>(ab, cd, 0, 2), v128.shuffle<i64>(ab, cd, 1, 3));
}

/** The products of 32 weights at w with activations, in four sums. */
// @ts-ignore: decorator
@inline
function dot32<B>(w: usize, x0: v128, x1: v128, x2: v128, x3: v128): v128 {
  if (sizeof<B>() == 1) {
    const half = i8x16.splat(-128);
    const p = v128.xor(v128.load(w), half), q = v128.xor(v128.load(w, 16), half);
    const a = i32x4.add(i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(p), x0), i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(p), x1));
    const b = i32x4.add(i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(q), x2), i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(q), x3));
    return i32x4.add(a, b);
  }
  const low = i16x8.splat(15), eight = i16x8.splat(8);
  const q = v128.load(w);
  const a = i32x4.add(
    i32x4.dot_i16x8_s(i16x8.sub(v128.and(q, low), eight), x0),
    i32x4.dot_i16x8_s(i16x8.sub(v128.and(i16x8.shr_u(q, 4), low), eight), x1),
  );
  const b = i32x4.add(
    i32x4.dot_i16x8_s(i16x8.sub(v128.and(i16x8.shr_u(q, 8), low), eight), x2),
    i32x4.dot_i16x8_s(i16x8.sub(i16x8.shr_u(q, 12), eight), x3),
  );
  return i32x4.add(a, b);
}

/** Bytes of 32 weights. */
// @ts-ignore: decorator
@inline
function stepBytes<B>(): usize {
  return sizeof<B>() == 1 ? 32 : 16;
}

/** One row and `count` columns from `first` on, at most four; what is missing of four is the last one again. */
function oneRow<B>(job: MatMulBlocks, row: i32, first: i32, count: i32): void {
  const length = paddedLength(job.k, job.blockSize);
  const shift = ctz(job.blockSize);
  const wide = <usize>weightBytes(job), scaleWide = (<usize>blocksOf(job)) << 2;
  const i1 = <usize>min(1, count - 1), i2 = <usize>min(2, count - 1), i3 = <usize>(count - 1);
  const w1 = i1 * wide, w2 = i2 * wide, w3 = i3 * wide;
  const s1 = i1 * scaleWide, s2 = i2 * scaleWide, s3 = i3 * scaleWide;
  const scales = job.scales + <usize>first * scaleWide;
  const place = (<usize>first) << 2;
  const c = job.c + ((<usize>(row * job.cRow)) << 2) + place;
  let w = job.b + <usize>first * wide;
  let x = job.values + ((<usize>(row * length)) << 1);
  const xScales = job.aScales + ((<usize>(row * ((length + 255) >> 8))) << 2);
  let totals = zero();
  if (job.bias) {
    const bias = job.bias + place;
    totals = v128.load_zero<f32>(bias);
    totals = v128.load_lane<f32>(bias + (i1 << 2), totals, 1);
    totals = v128.load_lane<f32>(bias + (i2 << 2), totals, 2);
    totals = v128.load_lane<f32>(bias + (i3 << 2), totals, 3);
  }
  const run = min(job.blockSize, 256);
  let at = 0;
  do {
    let a0 = zero(), a1 = zero(), a2 = zero(), a3 = zero();
    const end = x + ((<usize>run) << 1);
    do {
      const x0 = v128.load(x), x1 = v128.load(x, 16), x2 = v128.load(x, 32), x3 = v128.load(x, 48);
      a0 = i32x4.add(a0, dot32<B>(w, x0, x1, x2, x3));
      a1 = i32x4.add(a1, dot32<B>(w + w1, x0, x1, x2, x3));
      a2 = i32x4.add(a2, dot32<B>(w + w2, x0, x1, x2, x3));
      a3 = i32x4.add(a3, dot32<B>(w + w3, x0, x1, x2, x3));
      x += 64;
      w += stepBytes<B>();
    } while (x < end);
    const p = scales + ((<usize>(at >> shift)) << 2);
    let s = v128.load_zero<f32>(p);
    s = v128.load_lane<f32>(p + s1, s, 1);
    s = v128.load_lane<f32>(p + s2, s, 2);
    s = v128.load_lane<f32>(p + s3, s, 3);
    s = f32x4.mul(s, v128.load_splat<f32>(xScales + ((<usize>(at >> 8)) << 2)));
    totals = fma(f32x4.convert_i32x4_s(integerSums(a0, a1, a2, a3)), s, totals);
    at += run;
  } while (at < length);
  if (count == 4) return v128.store(c, totals);
  for (let i = 0; i < count; i++) {
    store<f32>(c + ((<usize>i) << 2), f32x4.extract_lane(totals, 0));
    totals = v128.shuffle<i32>(totals, totals, 1, 2, 3, 0);
  }
}

/** Up to four rows from `row` on, at least three, and two columns of 8-bit weights, which may be the same one. */
function fourRows(job: MatMulBlocks, row: i32, first: i32, second: i32): void {
  const length = paddedLength(job.k, job.blockSize);
  const shift = ctz(job.blockSize);
  const wide = <usize>weightBytes(job), scaleWide = (<usize>blocksOf(job)) << 2;
  const span = <usize>(second - first) * wide, scaleSpan = <usize>(second - first) * scaleWide;
  const scales = job.scales + <usize>first * scaleWide;
  let w = job.b + <usize>first * wide;
  const bytes = (<usize>length) << 1;
  // Where there are three rows, the fourth is the third again.
  const row3 = <usize>min(3, job.m - 1 - row);
  const x1 = bytes, x2 = bytes * 2, x3 = bytes * row3;
  let x = job.values + <usize>row * bytes;
  const scaleBytes = (<usize>((length + 255) >> 8)) << 2;
  const xScales = job.aScales + <usize>row * scaleBytes;
  const half = i16x8.splat(128);
  let left = zero(), right = zero();
  if (job.bias) {
    left = v128.load_splat<f32>(job.bias + ((<usize>first) << 2));
    right = v128.load_splat<f32>(job.bias + ((<usize>second) << 2));
  }
  const run = min(job.blockSize, 256);
  let at = 0;
  do {
    let a0 = zero(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
    const end = x + ((<usize>run) << 1);
    do {
      const p = i16x8.sub(v128.load_ext<u8>(w), half), q = i16x8.sub(v128.load_ext<u8>(w + span), half);
      let s = v128.load(x);
      a0 = i32x4.add(a0, i32x4.dot_i16x8_s(p, s));
      b0 = i32x4.add(b0, i32x4.dot_i16x8_s(q, s));
      s = v128.load(x + x1);
      a1 = i32x4.add(a1, i32x4.dot_i16x8_s(p, s));
      b1 = i32x4.add(b1, i32x4.dot_i16x8_s(q, s));
      s = v128.load(x + x2);
      a2 = i32x4.add(a2, i32x4.dot_i16x8_s(p, s));
      b2 = i32x4.add(b2, i32x4.dot_i16x8_s(q, s));
      s = v128.load(x + x3);
      a3 = i32x4.add(a3, i32x4.dot_i16x8_s(p, s));
      b3 = i32x4.add(b3, i32x4.dot_i16x8_s(q, s));
      x += 16;
      w += 8;
    } while (x < end);
    const q = xScales + ((<usize>(at >> 8)) << 2);
    let t = v128.load_zero<f32>(q);
    t = v128.load_lane<f32>(q + scaleBytes, t, 1);
    t = v128.load_lane<f32>(q + scaleBytes * 2, t, 2);
    t = v128.load_lane<f32>(q + scaleBytes * row3, t, 3);
    const p = scales + ((<usize>(at >> shift)) << 2);
    left = fma(f32x4.convert_i32x4_s(integerSums(a0, a1, a2, a3)), f32x4.mul(v128.load_splat<f32>(p), t), left);
    right = fma(f32x4.convert_i32x4_s(integerSums(b0, b1, b2, b3)), f32x4.mul(v128.load_splat<f32>(p + scaleSpan), t), right);
    at += run;
  } while (at < length);
  let c = job.c + ((<usize>(row * job.cRow)) << 2);
  const l = (<usize>first) << 2, r = (<usize>second) << 2;
  for (const end = min(row + 4, job.m); row < end; row++, c += (<usize>job.cRow) << 2) {
    store<f32>(c + r, f32x4.extract_lane(right, 0));
    store<f32>(c + l, f32x4.extract_lane(left, 0));
    left = v128.shuffle<i32>(left, left, 1, 2, 3, 0);
    right = v128.shuffle<i32>(right, right, 1, 2, 3, 0);
  }
}

/** Two rows from `row` on and two columns, which may be the same one. */
function twoRows<B>(job: MatMulBlocks, row: i32, first: i32, second: i32): void {
  const length = paddedLength(job.k, job.blockSize);
  const shift = ctz(job.blockSize);
  const wide = <usize>weightBytes(job), scaleWide = (<usize>blocksOf(job)) << 2;
  const span = <usize>(second - first) * wide, scaleSpan = <usize>(second - first) * scaleWide;
  const scales = job.scales + <usize>first * scaleWide;
  let w = job.b + <usize>first * wide;
  const below = (<usize>length) << 1;
  let x = job.values + <usize>row * below;
  const scalesBelow = (<usize>((length + 255) >> 8)) << 2;
  const xScales = job.aScales + <usize>row * scalesBelow;
  let totals = zero();
  if (job.bias) {
    totals = v128.load_splat<f32>(job.bias + ((<usize>first) << 2));
    const other = job.bias + ((<usize>second) << 2);
    totals = v128.load_lane<f32>(other, totals, 1);
    totals = v128.load_lane<f32>(other, totals, 3);
  }
  const run = min(job.blockSize, 256);
  let at = 0;
  do {
    let a0 = zero(), a1 = zero(), b0 = zero(), b1 = zero();
    const end = x + ((<usize>run) << 1);
    do {
      let x0 = v128.load(x), x1 = v128.load(x, 16), x2 = v128.load(x, 32), x3 = v128.load(x, 48);
      a0 = i32x4.add(a0, dot32<B>(w, x0, x1, x2, x3));
      a1 = i32x4.add(a1, dot32<B>(w + span, x0, x1, x2, x3));
      const y = x + below;
      x0 = v128.load(y);
      x1 = v128.load(y, 16);
      x2 = v128.load(y, 32);
      x3 = v128.load(y, 48);
      b0 = i32x4.add(b0, dot32<B>(w, x0, x1, x2, x3));
      b1 = i32x4.add(b1, dot32<B>(w + span, x0, x1, x2, x3));
      x += 64;
      w += stepBytes<B>();
    } while (x < end);
    const p = scales + ((<usize>(at >> shift)) << 2);
    let s = v128.load_splat<f32>(p);
    s = v128.load_lane<f32>(p + scaleSpan, s, 1);
    s = v128.load_lane<f32>(p + scaleSpan, s, 3);
    const q = xScales + ((<usize>(at >> 8)) << 2);
    let t = v128.load_splat<f32>(q);
    t = v128.load_lane<f32>(q + scalesBelow, t, 2);
    t = v128.load_lane<f32>(q + scalesBelow, t, 3);
    totals = fma(f32x4.convert_i32x4_s(integerSums(a0, a1, b0, b1)), f32x4.mul(s, t), totals);
    at += run;
  } while (at < length);
  const c = job.c + ((<usize>(row * job.cRow)) << 2), below1 = (<usize>job.cRow) << 2;
  const l = (<usize>first) << 2, r = (<usize>second) << 2;
  store<f32>(c + r, f32x4.extract_lane(totals, 1));
  store<f32>(c + l, f32x4.extract_lane(totals, 0));
  store<f32>(c + below1 + r, f32x4.extract_lane(totals, 3));
  store<f32>(c + below1 + l, f32x4.extract_lane(totals, 2));
}
