/**
 * Few rows of activations times rows of block-quantized weights. Of short 8-bit rows four are read at once; of others two, from the two
 * halves of the range, or four where activations have 8 bits, and integers are summed over 32 elements before their scale is applied.
 * Weights are taken as unsigned: what their zero point takes away is a sum over blocks, not over weights, and is where the sums start.
 */
import { blocksOf, splatScale, weightBytes, zeroTerm, zeroTermOf } from "./blocks";
import { MatMulBlocks } from "./matmul-blocks";
import { byteRow, groupSize, paddedLength, summedSize } from "./quantize-rows";
import { fma, gain, load4, sum, sums, zero } from "./simd";

/** All rows of c, columns from `from` to `to`: a few columns of weights serve every row before the next are read. */
export function multiplyRows<S>(job: MatMulBlocks, from: i32, to: i32, scratch: usize): void {
  const length = paddedLength(job.k, job.blockSize);
  const group = groupSize(job.precision);
  const valueBytes = job.precision == 8 ? byteRow(length) : <usize>length << 1;
  const scaleBytes = ((length + group - 1) / group) << 2;
  const sumBytes = (length / summedSize(job.blockSize, job.precision)) << 2;
  const blockBytes = job.precision == 8 && job.zeros ? blocksOf(job) << 2 : 0;
  if (blockBytes) {
    for (let row = 0; row < job.m; row++) sumBlocks(job, job.values + row * valueBytes + 36, scratch + row * blockBytes);
  }
  if (ASC_FEATURE_RELAXED_SIMD && job.precision == 8) {
    const apart = (to - from + 3) >> 2;
    for (let first = from; first < from + apart; first++) {
      for (let row = 0; row < job.m; row++) {
        const values = job.values + row * valueBytes;
        const blockSums = blockBytes ? scratch + row * blockBytes : 0;
        const c = job.c + ((<usize>(row * job.cRow)) << 2);
        if (job.blockSize == 32) dot4Fast<S, u8>(job, values, blockSums, length, first, apart, to - 1, c);
        else dot4Fast<S, u16>(job, values, blockSums, length, first, apart, to - 1, c);
      }
    }
    return;
  }
  const short = isFloat<S>() && job.bits == 8 && length <= 256;
  const step = short ? 4 : 1;
  const half = short ? to - from : (to - from + 1) >> 1;
  for (let first = from; first < from + half; first += step) {
    const second = min(first + half, to - 1);
    for (let row = 0; row < job.m; row++) {
      const values = job.values + row * valueBytes;
      const scales = job.aScales + row * scaleBytes;
      const rowSums = job.aSums + row * sumBytes;
      const c = job.c + ((<usize>(row * job.cRow)) << 2);
      if (isFloat<S>()) {
        if (short) {
          dot8Short<f32>(job, values, scales, rowSums, length, first, min(4, to - first), c);
          continue;
        }
      }
      if (job.bits == 8) {
        if (job.blockSize == 32) dot8<S, u8>(job, values, scales, rowSums, length, first, second, c);
        else dot8<S, u16>(job, values, scales, rowSums, length, first, second, c);
      } else dot4<S>(job, values, scales, rowSums, length, first, second, c);
    }
  }
}

/** Bytes of scratch of multiplyRows: for 8 bits with zero points the sums of each row's blocks. */
export function rowsBytes(job: MatMulBlocks): usize {
  return job.precision == 8 && job.zeros != 0 ? <usize>job.m * (paddedLength(job.k, job.blockSize) / job.blockSize) * 4 : 0;
}

/** Writes a column of c: the sum of the lanes, times what splatScale left out, plus the bias. */
// @ts-ignore: decorator
@inline
function put<S>(job: MatMulBlocks, c: usize, column: i32, lanes: v128): void {
  const at = (<usize>column) << 2;
  const bias: f32 = job.bias ? load<f32>(job.bias + at) : 0;
  store<f32>(c + at, sum(lanes) * (gain<S>() * gain<S>()) + bias);
}

/** The products of 32 weights of 8 bits with activations of 16 bits, in four sums: the even ones of 16, the odd ones, and again. */
// @ts-ignore: decorator
@inline
function dotBytes(w: usize, x0: v128, x1: v128, x2: v128, x3: v128): v128 {
  const p = v128.load(w), q = v128.load(w, 16);
  const low = i16x8.splat(255);
  const a = i32x4.add(i32x4.dot_i16x8_s(v128.and(p, low), x0), i32x4.dot_i16x8_s(i16x8.shr_u(p, 8), x1));
  const b = i32x4.add(i32x4.dot_i16x8_s(v128.and(q, low), x2), i32x4.dot_i16x8_s(i16x8.shr_u(q, 8), x3));
  return i32x4.add(a, b);
}

/**
 * `count` columns of weights of 8 bits from `first` on, at most four, with activations of 16 bits; what is missing of four is the first one
 * again. Integers are summed over a block, or over 256 elements of a longer one, before their scale is applied: 32 pairs of products of 16
 * and 8 bits stay below 2^30.
 */
function dot8Short<S>(
  job: MatMulBlocks, x: usize, xScales: usize, xSums: usize, length: i32, first: i32, count: i32, c: usize,
): void {
  const shift = ctz(job.blockSize);
  const wide = <usize>weightBytes(job);
  const scaleWide = <usize>blocksOf(job) * sizeof<S>();
  const column1 = <usize>i32(count > 1), column2 = <usize>i32(count > 2) << 1, column3 = <usize>i32(count > 3) * 3;
  const w1 = column1 * wide, w2 = column2 * wide, w3 = column3 * wide;
  const s1 = column1 * scaleWide, s2 = column2 * scaleWide, s3 = column3 * scaleWide;
  const scales = job.scales + <usize>first * scaleWide;
  let w = job.b + <usize>first * wide;
  let f0 = zero(), f1 = zero(), f2 = zero(), f3 = zero(), totals = zero();
  if (isFloat<S>() && !job.zeros) {
    totals = zeroTerms(scales, s1, s2, s3, xSums, scaleWide);
  } else {
    f0 = zeroTerm<S>(job, first, scales, xSums);
    f1 = zeroTerm<S>(job, first + <i32>column1, scales + s1, xSums);
    f2 = zeroTerm<S>(job, first + <i32>column2, scales + s2, xSums);
    f3 = zeroTerm<S>(job, first + <i32>column3, scales + s3, xSums);
  }
  const run = min(job.blockSize, 256);
  let at = 0;
  do {
    let g0 = zero(), g1 = zero(), g2 = zero(), g3 = zero();
    const groupEnd = min(at + 256, length);
    do {
      let a0 = zero(), a1 = zero(), a2 = zero(), a3 = zero();
      const end = x + ((<usize>run) << 1);
      do {
        const x0 = v128.load(x), x1 = v128.load(x, 16), x2 = v128.load(x, 32), x3 = v128.load(x, 48);
        a0 = i32x4.add(a0, dotBytes(w, x0, x1, x2, x3));
        a1 = i32x4.add(a1, dotBytes(w + w1, x0, x1, x2, x3));
        a2 = i32x4.add(a2, dotBytes(w + w2, x0, x1, x2, x3));
        a3 = i32x4.add(a3, dotBytes(w + w3, x0, x1, x2, x3));
        x += 64;
        w += 32;
      } while (x < end);
      const p = scales + <usize>(at >> shift) * sizeof<S>();
      g0 = f32x4.add(g0, f32x4.mul(f32x4.convert_i32x4_s(a0), splatScale<S>(p)));
      g1 = f32x4.add(g1, f32x4.mul(f32x4.convert_i32x4_s(a1), splatScale<S>(p + s1)));
      g2 = f32x4.add(g2, f32x4.mul(f32x4.convert_i32x4_s(a2), splatScale<S>(p + s2)));
      g3 = f32x4.add(g3, f32x4.mul(f32x4.convert_i32x4_s(a3), splatScale<S>(p + s3)));
      at += run;
    } while (at < groupEnd);
    const s = v128.load_splat<f32>(xScales);
    f0 = fma(g0, s, f0);
    f1 = fma(g1, s, f1);
    f2 = fma(g2, s, f2);
    f3 = fma(g3, s, f3);
    xScales += 4;
  } while (at < length);
  totals = f32x4.add(f32x4.mul(sums(f0, f1, f2, f3), f32x4.splat(gain<S>() * gain<S>())), totals);
  const place = (<usize>first) << 2;
  if (count == 4) {
    v128.store(c + place, job.bias ? f32x4.add(totals, v128.load(job.bias + place)) : totals);
    return;
  }
  for (let end = place + ((<usize>count) << 2), to = place; to < end; to += 4) {
    store<f32>(c + to, f32x4.extract_lane(totals, 0) + (job.bias ? load<f32>(job.bias + to) : 0));
    totals = v128.shuffle<i32>(totals, totals, 1, 2, 3, 0);
  }
}

/** What a zero point of 128 takes away from four columns, one a lane: -128 Σ scale · sum over the blocks, whose scales take `bytes` bytes. */
// @ts-ignore: decorator
@inline
function zeroTerms(scales: usize, s1: usize, s2: usize, s3: usize, xSums: usize, bytes: usize): v128 {
  let total = zero();
  for (const end = scales + bytes; scales < end; scales += 4, xSums += 4) {
    let four = v128.load_zero<f32>(scales);
    four = v128.load_lane<f32>(scales + s1, four, 1);
    four = v128.load_lane<f32>(scales + s2, four, 2);
    four = v128.load_lane<f32>(scales + s3, four, 3);
    total = f32x4.add(total, f32x4.mul(four, v128.load_splat<f32>(xSums)));
  }
  return f32x4.mul(total, f32x4.splat(-128));
}

/**
 * Two columns of weights of 8 bits, with activations of 16 bits. B is u8 for blocks of 32, u16 for longer ones, whose scale serves several
 * steps.
 */
function dot8<S, B>(
  job: MatMulBlocks, x: usize, xScales: usize, xSums: usize, length: i32, first: i32, second: i32, c: usize,
): void {
  const shift = ctz(job.blockSize) - 5; // from steps of 32 elements to blocks
  let w = job.b + <usize>first * weightBytes(job);
  const span = <usize>(second - first) * weightBytes(job);
  const scales = job.scales + <usize>(first * blocksOf(job)) * sizeof<S>();
  const scaleSpan = <usize>((second - first) * blocksOf(job)) * sizeof<S>();
  let f0 = zero(), f1 = zero();
  if (job.zeros) {
    f0 = zeroTerm<S>(job, first, scales, xSums);
    f1 = zeroTerm<S>(job, second, scales + scaleSpan, xSums);
  } else {
    // -128 Σ scale · sum over the blocks: what is read of the sums serves both columns.
    let p = scales;
    let left = blocksOf(job);
    for (; left >= 4; left -= 4, p += 4 * sizeof<S>(), xSums += 16) {
      const four = v128.load(xSums);
      f0 = fma(load4<S>(p), four, f0);
      f1 = fma(load4<S>(p + scaleSpan), four, f1);
    }
    for (; left > 0; left--, p += sizeof<S>(), xSums += 4) {
      const one = v128.load_zero<f32>(xSums);
      f0 = fma(splatScale<S>(p), one, f0);
      f1 = fma(splatScale<S>(p + scaleSpan), one, f1);
    }
    const middle = f32x4.splat(-128);
    f0 = f32x4.mul(f0, middle);
    f1 = f32x4.mul(f1, middle);
  }
  let at = 0;
  let p = scales;
  const end = x + ((<usize>length) << 1);
  do {
    const groupEnd = min(x + 512, end);
    let g0 = zero(), g1 = zero();
    do {
      const x0 = v128.load(x), x1 = v128.load(x, 16), x2 = v128.load(x, 32), x3 = v128.load(x, 48);
      if (sizeof<B>() > 1) p = scales + (at++ >> shift) * sizeof<S>();
      g0 = fma(f32x4.convert_i32x4_s(dotBytes(w, x0, x1, x2, x3)), splatScale<S>(p), g0);
      g1 = fma(f32x4.convert_i32x4_s(dotBytes(w + span, x0, x1, x2, x3)), splatScale<S>(p + scaleSpan), g1);
      x += 64;
      w += 32;
      if (sizeof<B>() == 1) p += sizeof<S>();
    } while (x < groupEnd);
    const s = v128.load_splat<f32>(xScales);
    f0 = fma(g0, s, f0);
    f1 = fma(g1, s, f1);
    xScales += 4;
  } while (x < end);
  put<S>(job, c, first, f0);
  put<S>(job, c, second, f1);
}

/** Two columns of weights of 4 bits, with activations of 16 bits. */
function dot4<S>(
  job: MatMulBlocks, x: usize, xScales: usize, xSums: usize, length: i32, first: i32, second: i32, c: usize,
): void {
  const shift = ctz(job.blockSize) - 5; // from steps of 32 elements to blocks
  let w = job.b + <usize>first * weightBytes(job);
  const span = <usize>(second - first) * weightBytes(job);
  const scales = job.scales + <usize>(first * blocksOf(job)) * sizeof<S>();
  const scaleSpan = <usize>((second - first) * blocksOf(job)) * sizeof<S>();
  let f0 = zeroTerm<S>(job, first, scales, xSums);
  let f1 = zeroTerm<S>(job, second, scales + scaleSpan, xSums);
  const low = i16x8.splat(15);
  let at = 0;
  const end = x + ((<usize>length) << 1);
  do {
    const groupEnd = min(x + 512, end);
    let g0 = zero(), g1 = zero();
    do {
      const x0 = v128.load(x), x1 = v128.load(x, 16), x2 = v128.load(x, 32), x3 = v128.load(x, 48);
      const p = scales + (at++ >> shift) * sizeof<S>();
      let q = v128.load(w);
      let a = i32x4.dot_i16x8_s(v128.and(q, low), x0);
      a = i32x4.add(a, i32x4.dot_i16x8_s(v128.and(i16x8.shr_u(q, 4), low), x1));
      a = i32x4.add(a, i32x4.dot_i16x8_s(v128.and(i16x8.shr_u(q, 8), low), x2));
      a = i32x4.add(a, i32x4.dot_i16x8_s(i16x8.shr_u(q, 12), x3));
      g0 = f32x4.add(g0, f32x4.mul(f32x4.convert_i32x4_s(a), splatScale<S>(p)));
      q = v128.load(w + span);
      a = i32x4.dot_i16x8_s(v128.and(q, low), x0);
      a = i32x4.add(a, i32x4.dot_i16x8_s(v128.and(i16x8.shr_u(q, 4), low), x1));
      a = i32x4.add(a, i32x4.dot_i16x8_s(v128.and(i16x8.shr_u(q, 8), low), x2));
      a = i32x4.add(a, i32x4.dot_i16x8_s(i16x8.shr_u(q, 12), x3));
      g1 = f32x4.add(g1, f32x4.mul(f32x4.convert_i32x4_s(a), splatScale<S>(p + scaleSpan)));
      x += 64;
      w += 16;
    } while (x < groupEnd);
    const s = v128.load_splat<f32>(xScales);
    f0 = fma(g0, s, f0);
    f1 = fma(g1, s, f1);
    xScales += 4;
  } while (x < end);
  put<S>(job, c, first, f0);
  put<S>(job, c, second, f1);
}

/** The products of 32 nibbles with bytes, in four sums. Pairs of products are below 2^13, so that 16 bits hold two of them. */
// @ts-ignore: decorator
@inline
function dotNibbles(nibbles: v128, even: v128, odd: v128): v128 {
  const low = i8x16.splat(15);
  const a = i16x8.relaxed_dot_i8x16_i7x16_s(even, v128.and(nibbles, low));
  const b = i16x8.relaxed_dot_i8x16_i7x16_s(odd, v128.and(i16x8.shr_u(nibbles, 4), low));
  return i32x4.dot_i16x8_s(i16x8.add(a, b), i16x8.splat(1));
}

/**
 * Four columns of weights of 4 bits, with activations of 8 bits: what is read of the activations serves all four. A zero point of 8 is taken
 * away as it goes, a quarter of it in each lane; `blockSums`, where it is not 0, serves for what other zero points are more or less than
 * that. B is u8 for blocks of 32, u16 for longer ones, whose scale serves several steps. Columns lie `apart` from each other; those behind
 * `last` are `last` again.
 */
function dot4Fast<S, B>(
  job: MatMulBlocks, x: usize, blockSums: usize, length: i32, first: i32, apart: i32, last: i32, c: usize,
): void {
  const shift = ctz(job.blockSize) - 5; // from steps of 32 elements to blocks
  const wide = <usize>weightBytes(job), scaleWide = <usize>blocksOf(job) * sizeof<S>();
  const second = min(first + apart, last), third = min(first + 2 * apart, last), fourth = min(first + 3 * apart, last);
  let w = job.b + <usize>first * wide;
  const w1 = <usize>(second - first) * wide, w2 = <usize>(third - first) * wide, w3 = <usize>(fourth - first) * wide;
  const scales = job.scales + <usize>first * scaleWide;
  const s1 = <usize>(second - first) * scaleWide, s2 = <usize>(third - first) * scaleWide, s3 = <usize>(fourth - first) * scaleWide;
  let f0 = zero(), f1 = zero(), f2 = zero(), f3 = zero();
  if (blockSums) {
    f0 = zeroTermOf<S>(job, first, scales, blockSums, 8);
    f1 = zeroTermOf<S>(job, second, scales + s1, blockSums, 8);
    f2 = zeroTermOf<S>(job, third, scales + s2, blockSums, 8);
    f3 = zeroTermOf<S>(job, fourth, scales + s3, blockSums, 8);
  }
  const end = x + byteRow(length);
  let at = 0;
  let p = scales;
  do {
    const even = v128.load(x), odd = v128.load(x, 16);
    const s = v128.load_splat<f32>(x, 32), z = v128.load_splat<f32>(x, 40);
    if (sizeof<B>() > 1) p = scales + (at++ >> shift) * sizeof<S>();
    f0 = fma(fma(f32x4.convert_i32x4_s(dotNibbles(v128.load(w), even, odd)), s, z), splatScale<S>(p), f0);
    f1 = fma(fma(f32x4.convert_i32x4_s(dotNibbles(v128.load(w + w1), even, odd)), s, z), splatScale<S>(p + s1), f1);
    f2 = fma(fma(f32x4.convert_i32x4_s(dotNibbles(v128.load(w + w2), even, odd)), s, z), splatScale<S>(p + s2), f2);
    f3 = fma(fma(f32x4.convert_i32x4_s(dotNibbles(v128.load(w + w3), even, odd)), s, z), splatScale<S>(p + s3), f3);
    x += 48;
    w += 16;
    if (sizeof<B>() == 1) p += sizeof<S>();
  } while (x < end);
  const totals = f32x4.mul(sums(f0, f1, f2, f3), f32x4.splat(gain<S>() * gain<S>()));
  putOne(job, c, first, f32x4.extract_lane(totals, 0));
  putOne(job, c, second, f32x4.extract_lane(totals, 1));
  putOne(job, c, third, f32x4.extract_lane(totals, 2));
  putOne(job, c, fourth, f32x4.extract_lane(totals, 3));
}

/** Writes a column of c, with its bias. */
function putOne(job: MatMulBlocks, c: usize, column: i32, total: f32): void {
  const at = (<usize>column) << 2;
  store<f32>(c + at, job.bias ? total + load<f32>(job.bias + at) : total);
}

/** The sums of steps of 32 elements, which lie 48 bytes apart, added up to those of blocks. */
function sumBlocks(job: MatMulBlocks, sums: usize, target: usize): void {
  const each = job.blockSize >> 5;
  for (let block = 0; block < blocksOf(job); block++, target += 4) {
    let total: f32 = 0;
    for (let i = 0; i < each; i++, sums += 48) total += load<f32>(sums);
    store<f32>(target, total);
  }
}
