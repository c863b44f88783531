/**
 * Few rows of activations times rows of block-quantized weights. Two rows of weights are read at once, from the two halves of the range.
 * Integers are summed over 32 elements before their scale is applied. Weights are taken as unsigned: what their zero point takes
 * away is a sum over blocks, not over weights, and is where the sums start.
 */
import { blocksOf, splatScale, weightBytes, zeroTerm, zeroTermOf } from "./blocks";
import { MatMulBlocks } from "./jobs";
import { groupSize, paddedLength, summedSize } from "./quantize-rows";
import { fma, gain, sum, zero } from "./simd";

/** All rows of c, columns from `from` to `to`: two columns of weights serve every row before the next are read. */
export function multiplyRows<S>(job: MatMulBlocks, from: i32, to: i32, scratch: usize): void {
  const length = paddedLength(job.k, job.blockSize);
  const group = groupSize(job.precision);
  const valueBytes = length * (job.precision >> 3);
  const scaleBytes = ((length + group - 1) / group) << 2;
  const sumBytes = (length / summedSize(job.blockSize, job.precision)) << 2;
  const blockBytes = job.precision == 8 && job.zeros ? blocksOf(job) << 2 : 0;
  if (blockBytes) {
    for (let row = 0; row < job.m; row++) sumBlocks(job, job.aSums + row * sumBytes, scratch + row * blockBytes);
  }
  const half = (to - from + 1) >> 1;
  for (let first = from; first < from + half; first++) {
    const second = min(first + half, to - 1);
    for (let row = 0; row < job.m; row++) {
      const values = job.values + row * valueBytes;
      const scales = job.aScales + row * scaleBytes;
      const sums = job.aSums + row * sumBytes;
      const c = job.c + ((<usize>(row * job.cRow)) << 2);
      if (job.bits == 8) dot8<S>(job, values, scales, sums, length, first, second, c);
      else if (job.precision == 16) dot4<S>(job, values, scales, sums, length, first, second, c);
      else if (ASC_FEATURE_RELAXED_SIMD) {
        const blockSums = blockBytes ? scratch + row * blockBytes : 0;
        dot4Fast<S>(job, values, scales, sums, blockSums, length, first, second, c);
      }
    }
  }
}

/** Writes a column of c: the sum of the lanes, times what splatScale left out, plus the bias. */
// @ts-ignore: decorator
@inline
function put<S>(job: MatMulBlocks, c: usize, column: i32, lanes: v128): void {
  const at = (<usize>column) << 2;
  const bias: f32 = job.bias ? load<f32>(job.bias + at) : 0;
  store<f32>(c + at, sum(lanes) * (gain<S>() * gain<S>()) + bias);
}

/** Two columns of weights of 8 bits, with activations of 16 bits. */
function dot8<S>(
  job: MatMulBlocks, x: usize, xScales: usize, xSums: usize, length: i32, first: i32, second: i32, c: usize,
): void {
  const shift = ctz(job.blockSize) - 5; // from steps of 32 elements to blocks
  let w = job.b + <usize>first * weightBytes(job);
  const span = <usize>(second - first) * weightBytes(job);
  const scales = job.scales + <usize>(first * blocksOf(job)) * sizeof<S>();
  const scaleSpan = <usize>((second - first) * blocksOf(job)) * sizeof<S>();
  let f0 = zeroTerm<S>(job, first, scales, xSums);
  let f1 = zeroTerm<S>(job, second, scales + scaleSpan, xSums);
  let at = 0;
  const end = x + ((<usize>length) << 1);
  do {
    const groupEnd = min(x + 512, end);
    let g0 = zero(), g1 = zero();
    do {
      const x0 = v128.load(x), x1 = v128.load(x, 16), x2 = v128.load(x, 32), x3 = v128.load(x, 48);
      const p = scales + (at++ >> shift) * sizeof<S>();
      let a = i32x4.dot_i16x8_s(v128.load_ext<u8>(w), x0);
      a = i32x4.add(a, i32x4.dot_i16x8_s(v128.load_ext<u8>(w, 8), x1));
      a = i32x4.add(a, i32x4.dot_i16x8_s(v128.load_ext<u8>(w, 16), x2));
      a = i32x4.add(a, i32x4.dot_i16x8_s(v128.load_ext<u8>(w, 24), x3));
      g0 = f32x4.add(g0, f32x4.mul(f32x4.convert_i32x4_s(a), splatScale<S>(p)));
      const v = w + span;
      a = i32x4.dot_i16x8_s(v128.load_ext<u8>(v), x0);
      a = i32x4.add(a, i32x4.dot_i16x8_s(v128.load_ext<u8>(v, 8), x1));
      a = i32x4.add(a, i32x4.dot_i16x8_s(v128.load_ext<u8>(v, 16), x2));
      a = i32x4.add(a, i32x4.dot_i16x8_s(v128.load_ext<u8>(v, 24), x3));
      g1 = f32x4.add(g1, f32x4.mul(f32x4.convert_i32x4_s(a), splatScale<S>(p + scaleSpan)));
      x += 64;
      w += 32;
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
 * Two columns of weights of 4 bits, with activations of 8 bits. A zero point of 8 is taken away as it goes, a quarter of it in each lane;
 * `blockSums`, where it is not 0, serves for what other zero points are more or less than that.
 */
function dot4Fast<S>(
  job: MatMulBlocks, x: usize, xScales: usize, xSums: usize, blockSums: usize, length: i32, first: i32, second: i32, c: usize,
): void {
  const shift = ctz(job.blockSize) - 5; // from steps of 32 elements to blocks
  let w = job.b + <usize>first * weightBytes(job);
  const span = <usize>(second - first) * weightBytes(job);
  const scales = job.scales + <usize>(first * blocksOf(job)) * sizeof<S>();
  const scaleSpan = <usize>((second - first) * blocksOf(job)) * sizeof<S>();
  let f0 = zero(), f1 = zero();
  if (blockSums) {
    f0 = zeroTermOf<S>(job, first, scales, blockSums, 8);
    f1 = zeroTermOf<S>(job, second, scales + scaleSpan, blockSums, 8);
  }
  const quarter = f32x4.splat(-2);
  const end = x + length;
  let at = 0;
  do {
    const even = v128.load(x), odd = v128.load(x, 16);
    const s = v128.load_splat<f32>(xScales);
    const z = f32x4.mul(v128.load_splat<f32>(xSums), quarter);
    const p = scales + (at++ >> shift) * sizeof<S>();
    const a = dotNibbles(v128.load(w), even, odd);
    f0 = fma(fma(f32x4.convert_i32x4_s(a), s, z), splatScale<S>(p), f0);
    const b = dotNibbles(v128.load(w + span), even, odd);
    f1 = fma(fma(f32x4.convert_i32x4_s(b), s, z), splatScale<S>(p + scaleSpan), f1);
    x += 32;
    w += 16;
    xScales += 4;
    xSums += 4;
  } while (x < end);
  put<S>(job, c, first, f0);
  put<S>(job, c, second, f1);
}

/** The sums of steps of 32 elements, added up to those of blocks. */
function sumBlocks(job: MatMulBlocks, sums: usize, target: usize): void {
  const each = job.blockSize >> 5;
  for (let block = 0; block < blocksOf(job); block++, target += 4) {
    let total: f32 = 0;
    for (let i = 0; i < each; i++, sums += 4) total += load<f32>(sums);
    store<f32>(target, total);
  }
}
