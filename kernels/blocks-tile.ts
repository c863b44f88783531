/**
 * Many rows of activations times block-quantized weights, in tiles of 4 rows by 8 columns. Eight rows of weights, which lie one
 * behind the other, are unpacked whole into a panel that all tiles then read, a part of its depth at a time: [units][8 columns]
 * [4 bytes], a unit being two elements of 16 bits or four of 8.
 */
import { blocksOf, weightBytes, zeroOf } from "./blocks";
import { FLOAT32 } from "./codes";
import { readOne, widthOf } from "./float-types";
import { addTile, weave } from "./matmul";
import { MatMulBlocks } from "./matmul-blocks";
import { loadSums, startSums, storeSums } from "./panels";
import { isPermuted, paddedLength, panelDepth, summedSize, tiledBytes } from "./quantize-rows";
import { fma, zero } from "./simd";

/** Rows whose sums lie together: they stay in the first cache while a panel meets them. */
const ROWS: i32 = 128;

/** Elements of a panel, a multiple of its parts' depth; longer rows take several. */
const SPAN: i32 = 4096;

/** All rows of c, columns from `from`, a multiple of 8, to `to`. */
export function multiplyTiles(job: MatMulBlocks, from: i32, to: i32, scratch: usize): void {
  const length = paddedLength(job.k, job.blockSize);
  const depth = panelDepth(job.precision);
  const unitShift = job.precision == 8 ? 3 : 4; // from elements to bytes of a panel
  const stepShift = ctz(stepSize(job));
  const zeroShift = ctz(summedSize(job.blockSize, job.precision));
  const isShifted = job.zeros != 0 && (job.precision == 8 || job.zerosType >= 0);
  // Scratch: sums [rows / 4][4][8], scales [steps][8], what zero points take away [blocks][8], the panel.
  const sums = scratch;
  const scales = sums + ROWS * 32;
  const zeros = scales + ((<usize>(min(SPAN, length) >> stepShift)) << 5);
  const panel = zeros + (isShifted ? (<usize>(length >> zeroShift)) << 5 : 0);
  for (let column = from; column < to; column += 8) {
    if (isShifted) unpackZeros(job, column, length >> zeroShift, zeros);
    for (let start = 0; start < length; start += SPAN) {
      const end = min(length, start + SPAN);
      unpackScales(job, column, start, end, scales);
      unpackPanel(job, column, start, end, panel);
      for (let top = 0; top < job.m; top += ROWS) {
        const bottom = min(job.m, top + ROWS);
        const c = job.c + ((<usize>(top * job.cRow + column)) << 2);
        if (start == 0) startSums(sums, bottom - top, job.bias ? job.bias + ((<usize>column) << 2) : 0, job.n - column);
        else loadSums(sums, bottom - top, c, (<usize>job.cRow) << 2, job.n - column);
        for (let first = start; first < end; first += depth) {
          const count = min(depth, end - first);
          const part = panel + ((<usize>(first - start)) << unitShift);
          const partScales = scales + ((<usize>((first - start) >> stepShift)) << 5);
          let target = sums;
          for (let row = top; row < bottom; row += 4, target += 128) {
            if (job.precision == 16) multiply16(job, row, length, first, count, part, partScales, target);
            else if (ASC_FEATURE_RELAXED_SIMD) multiply8(job, row, length, first, count, part, partScales, target);
          }
        }
        if (isShifted && end == length) addZeros(job, top, bottom, length >> zeroShift, zeros, sums);
        storeSums(sums, bottom - top, c, (<usize>job.cRow) << 2, job.n - column);
      }
    }
  }
}

/** Bytes of scratch of multiplyTiles: sums, scales, what zero points take away, the panel. */
export function tilesBytes(job: MatMulBlocks): usize {
  const length = paddedLength(job.k, job.blockSize);
  const span = min(SPAN, length);
  const isShifted = job.zeros != 0 && (job.precision == 8 || job.zerosType >= 0);
  const zeros = isShifted ? length / summedSize(job.blockSize, job.precision) : 0;
  return <usize>(ROWS + span / stepSize(job) + zeros) * 32 + <usize>span * job.precision;
}

/** Elements whose integer products are summed before a scale is applied. */
// @ts-ignore: decorator
@inline
function stepSize(job: MatMulBlocks): i32 {
  return job.precision == 8 ? 32 : min(job.blockSize, 256);
}

/** A column of c, or the last one for those that are not there: what they sum is not stored. */
// @ts-ignore: decorator
@inline
function columnAt(job: MatMulBlocks, column: i32): i32 {
  return min(column, job.n - 1);
}

/** Scales of eight columns for the steps from `start` to `end`, [steps][8]. */
function unpackScales(job: MatMulBlocks, column: i32, start: i32, end: i32, target: usize): void {
  const step = stepSize(job);
  const shift = ctz(job.blockSize);
  const width = widthOf(job.scaleType);
  const row = blocksOf(job) * width;
  if (column + 8 <= job.n && width == 4 && step == job.blockSize) {
    const p = job.scales + <usize>(column * row + (start >> shift) * width);
    weave(p, row, (end - start) >> shift, target, 32);
    weave(p + 4 * row, row, (end - start) >> shift, target + 16, 32);
    return;
  }
  for (let at = start; at < end; at += step, target += 32) {
    const p = job.scales + <usize>((at >> shift) * width);
    for (let i = 0; i < 8; i++) store<f32>(target + (i << 2), scaleAt(p + <usize>(columnAt(job, column + i) * row), job.scaleType));
  }
}

// @ts-ignore: decorator
@inline
function scaleAt(p: usize, type: i32): f32 {
  return type == FLOAT32 ? load<f32>(p) : readOne(p, type);
}

/** Eight rows of weights from `start` to `end`, in the activations' order: signed 16-bit integers, or nibbles as bytes. */
function unpackPanel(job: MatMulBlocks, column: i32, start: i32, end: i32, panel: usize): void {
  if (job.bits != 8 && !isPermuted(job.bits, job.blockSize)) {
    for (let i = 0; i < 8; i++) unpackSmall(job, columnAt(job, column + i), start, end, panel + (i << 2));
    return;
  }
  for (let i = 0; i < 8; i += 4, panel += 16) {
    const row = <usize>weightBytes(job);
    const w = job.b + <usize>((start * job.bits) >> 3);
    const a = w + <usize>columnAt(job, column + i) * row, b = w + <usize>columnAt(job, column + i + 1) * row;
    const c = w + <usize>columnAt(job, column + i + 2) * row, d = w + <usize>columnAt(job, column + i + 3) * row;
    if (job.precision == 8) unpackNibbles(a, b, c, d, end - start, panel);
    else if (job.bits == 8) unpack8(job, column + i, a, b, c, d, start, end, panel);
    else unpack4(job, column + i, a, b, c, d, start, end, panel);
  }
}

/** The zero points of four columns that unpacking takes away, twice each: none where they are floats. */
function zerosAt(job: MatMulBlocks, column: i32, element: i32): v128 {
  if (job.zerosType >= 0) return zero();
  const block = element >> ctz(job.blockSize);
  let a = i32x4.splat(<i32>zeroOf(job, columnAt(job, column), block));
  a = i32x4.replace_lane(a, 1, <i32>zeroOf(job, columnAt(job, column + 1), block));
  a = i32x4.replace_lane(a, 2, <i32>zeroOf(job, columnAt(job, column + 2), block));
  a = i32x4.replace_lane(a, 3, <i32>zeroOf(job, columnAt(job, column + 3), block));
  return v128.or(a, i32x4.shl(a, 16));
}

function unpackNibbles(a: usize, b: usize, c: usize, d: usize, length: i32, target: usize): void {
  const low = i8x16.splat(15);
  for (let at: usize = 0; at < <usize>(length >> 1); at += 16, target += 256) {
    const p = v128.load(a + at), q = v128.load(b + at), r = v128.load(c + at), s = v128.load(d + at);
    const pq = v128.shuffle<i32>(p, q, 0, 4, 1, 5), rs = v128.shuffle<i32>(r, s, 0, 4, 1, 5);
    const PQ = v128.shuffle<i32>(p, q, 2, 6, 3, 7), RS = v128.shuffle<i32>(r, s, 2, 6, 3, 7);
    splitBytes(v128.shuffle<i64>(pq, rs, 0, 2), low, target);
    splitBytes(v128.shuffle<i64>(pq, rs, 1, 3), low, target + 32);
    splitBytes(v128.shuffle<i64>(PQ, RS, 0, 2), low, target + 64);
    splitBytes(v128.shuffle<i64>(PQ, RS, 1, 3), low, target + 96);
  }
}

/** The low and the high nibbles of bytes, four units apart. */
// @ts-ignore: decorator
@inline
function splitBytes(bytes: v128, low: v128, target: usize): void {
  v128.store(target, v128.and(bytes, low));
  v128.store(target, v128.and(i16x8.shr_u(bytes, 4), low), 128);
}

function unpack4(job: MatMulBlocks, column: i32, a: usize, b: usize, c: usize, d: usize, start: i32, end: i32, target: usize): void {
  let zeros = i16x8.splat(8);
  for (let at = start; at < end; at += 32, a += 16, b += 16, c += 16, d += 16, target += 512) {
    if (job.zeros) zeros = zerosAt(job, column, at);
    const p = v128.load(a), q = v128.load(b), r = v128.load(c), s = v128.load(d);
    const pq = v128.shuffle<i32>(p, q, 0, 4, 1, 5), rs = v128.shuffle<i32>(r, s, 0, 4, 1, 5);
    const PQ = v128.shuffle<i32>(p, q, 2, 6, 3, 7), RS = v128.shuffle<i32>(r, s, 2, 6, 3, 7);
    splitLanes(v128.shuffle<i64>(pq, rs, 0, 2), zeros, target);
    splitLanes(v128.shuffle<i64>(pq, rs, 1, 3), zeros, target + 32);
    splitLanes(v128.shuffle<i64>(PQ, RS, 0, 2), zeros, target + 64);
    splitLanes(v128.shuffle<i64>(PQ, RS, 1, 3), zeros, target + 96);
  }
}

/** The four nibbles of lanes of 16 bits, less the zero points, four units apart. */
// @ts-ignore: decorator
@inline
function splitLanes(lanes: v128, zeros: v128, target: usize): void {
  const low = i16x8.splat(15);
  v128.store(target, i16x8.sub(v128.and(lanes, low), zeros));
  v128.store(target, i16x8.sub(v128.and(i16x8.shr_u(lanes, 4), low), zeros), 128);
  v128.store(target, i16x8.sub(v128.and(i16x8.shr_u(lanes, 8), low), zeros), 256);
  v128.store(target, i16x8.sub(i16x8.shr_u(lanes, 12), zeros), 384);
}

function unpack8(job: MatMulBlocks, column: i32, a: usize, b: usize, c: usize, d: usize, start: i32, end: i32, target: usize): void {
  let zeros = i16x8.splat(128);
  for (let at = start; at < end; at += 8, a += 8, b += 8, c += 8, d += 8, target += 128) {
    if (job.zeros && !(at & 15)) zeros = zerosAt(job, column, at);
    const p = v128.load_ext<u8>(a), q = v128.load_ext<u8>(b), r = v128.load_ext<u8>(c), s = v128.load_ext<u8>(d);
    const pq = v128.shuffle<i32>(p, q, 0, 4, 1, 5), rs = v128.shuffle<i32>(r, s, 0, 4, 1, 5);
    const PQ = v128.shuffle<i32>(p, q, 2, 6, 3, 7), RS = v128.shuffle<i32>(r, s, 2, 6, 3, 7);
    v128.store(target, i16x8.sub(v128.shuffle<i64>(pq, rs, 0, 2), zeros));
    v128.store(target, i16x8.sub(v128.shuffle<i64>(pq, rs, 1, 3), zeros), 32);
    v128.store(target, i16x8.sub(v128.shuffle<i64>(PQ, RS, 0, 2), zeros), 64);
    v128.store(target, i16x8.sub(v128.shuffle<i64>(PQ, RS, 1, 3), zeros), 96);
  }
}

/** A row of blocks of 16, or of 2 bits: element by element. */
function unpackSmall(job: MatMulBlocks, column: i32, start: i32, end: i32, target: usize): void {
  const bits = job.bits;
  const w = job.b + <usize>(column * weightBytes(job));
  const isWhole = !(job.zeros && job.zerosType >= 0);
  for (let i = start; i < end; i++) {
    let value = (<i32>load<u8>(w + ((i * bits) >> 3)) >> ((i * bits) & 7)) & ((1 << bits) - 1);
    if (isWhole) value -= <i32>zeroOf(job, column, i >> ctz(job.blockSize));
    store<i16>(target + (<usize>((i - start) >> 1) << 5) + ((i & 1) << 1), <i16>value);
  }
}

/** Sums += activations of 16 bits · a part of a panel, a group of activations that share a scale at a time. */
function multiply16(
  job: MatMulBlocks, row: i32, length: i32, first: i32, count: i32, panel: usize, scales: usize, sums: usize,
): void {
  const step = stepSize(job);
  const shift = ctz(step);
  const groups = (length + 255) >> 8;
  let xScales = job.aScales + ((<usize>(row * groups + (first >> 8) * 4)) << 2);
  let x = job.values + <usize>(first * ((job.m + 3) & ~3) + row * count) * 2;
  for (let group = 0; group < count; group += 256, xScales += 16) {
    const size = min(256, count - group);
    addSteps16(x, panel, size >> shift, (<usize>step) << 3, scales, xScales, sums);
    x += <usize>size * 8;
    panel += <usize>size * 16;
    scales += (<usize>(size >> shift)) << 5;
  }
}

/** c += x · w, step by step of `bytes` of x, each times the scales of columns and rows. */
function addSteps16(x: usize, w: usize, steps: i32, bytes: usize, scales: usize, xScales: usize, c: usize): void {
  do {
    let a0 = zero(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
    const end = x + bytes;
    do {
      const p = v128.load(w), q = v128.load(w, 16);
      let s = v128.load_splat<i32>(x);
      a0 = i32x4.add(a0, i32x4.dot_i16x8_s(p, s));
      b0 = i32x4.add(b0, i32x4.dot_i16x8_s(q, s));
      s = v128.load_splat<i32>(x, 4);
      a1 = i32x4.add(a1, i32x4.dot_i16x8_s(p, s));
      b1 = i32x4.add(b1, i32x4.dot_i16x8_s(q, s));
      s = v128.load_splat<i32>(x, 8);
      a2 = i32x4.add(a2, i32x4.dot_i16x8_s(p, s));
      b2 = i32x4.add(b2, i32x4.dot_i16x8_s(q, s));
      s = v128.load_splat<i32>(x, 12);
      a3 = i32x4.add(a3, i32x4.dot_i16x8_s(p, s));
      b3 = i32x4.add(b3, i32x4.dot_i16x8_s(q, s));
      x += 16;
      w += 32;
    } while (x < end);
    const s = v128.load(scales), t = v128.load(scales, 16);
    addScaled(c, 0, a0, b0, s, t, v128.load_splat<f32>(xScales));
    addScaled(c, 32, a1, b1, s, t, v128.load_splat<f32>(xScales, 4));
    addScaled(c, 64, a2, b2, s, t, v128.load_splat<f32>(xScales, 8));
    addScaled(c, 96, a3, b3, s, t, v128.load_splat<f32>(xScales, 12));
    scales += 32;
  } while (--steps);
}

// @ts-ignore: decorator
@inline
function addScaled(c: usize, at: usize, a: v128, b: v128, s: v128, t: v128, x: v128): void {
  c += at;
  v128.store(c, fma(f32x4.convert_i32x4_s(a), f32x4.mul(s, x), v128.load(c)));
  v128.store(c, fma(f32x4.convert_i32x4_s(b), f32x4.mul(t, x), v128.load(c, 16)), 16);
}

/**
 * c += activations of 8 bits · nibbles, 32 elements at a time, each times the scales of columns and rows. Sums start at what a zero
 * point of 8 takes away, so that 16 bits hold them: they may wrap on the way.
 */
function multiply8(
  job: MatMulBlocks, row: i32, length: i32, first: i32, count: i32, w: usize, scales: usize, c: usize,
): void {
  const one = i16x8.splat(1);
  let x = job.values + tiledBytes(first * ((job.m + 3) & ~3) + row * count);
  let xScales = job.aScales + ((<usize>((row * length) >> 5) + ((first >> 5) << 2)) << 2);
  let steps = count >> 5;
  do {
    let a0 = v128.load_splat<i32>(x), a1 = v128.load_splat<i32>(x, 4);
    let a2 = v128.load_splat<i32>(x, 8), a3 = v128.load_splat<i32>(x, 12);
    let b0 = a0, b1 = a1, b2 = a2, b3 = a3;
    const end = x + 128;
    do {
      x += 16;
      const p = v128.load(w), q = v128.load(w, 16);
      let s = v128.load_splat<i32>(x);
      a0 = i16x8.add(a0, i16x8.relaxed_dot_i8x16_i7x16_s(s, p));
      b0 = i16x8.add(b0, i16x8.relaxed_dot_i8x16_i7x16_s(s, q));
      s = v128.load_splat<i32>(x, 4);
      a1 = i16x8.add(a1, i16x8.relaxed_dot_i8x16_i7x16_s(s, p));
      b1 = i16x8.add(b1, i16x8.relaxed_dot_i8x16_i7x16_s(s, q));
      s = v128.load_splat<i32>(x, 8);
      a2 = i16x8.add(a2, i16x8.relaxed_dot_i8x16_i7x16_s(s, p));
      b2 = i16x8.add(b2, i16x8.relaxed_dot_i8x16_i7x16_s(s, q));
      s = v128.load_splat<i32>(x, 12);
      a3 = i16x8.add(a3, i16x8.relaxed_dot_i8x16_i7x16_s(s, p));
      b3 = i16x8.add(b3, i16x8.relaxed_dot_i8x16_i7x16_s(s, q));
      w += 32;
    } while (x < end);
    x += 16;
    const s = v128.load(scales), t = v128.load(scales, 16);
    addScaled(c, 0, i32x4.dot_i16x8_s(a0, one), i32x4.dot_i16x8_s(b0, one), s, t, v128.load_splat<f32>(xScales));
    addScaled(c, 32, i32x4.dot_i16x8_s(a1, one), i32x4.dot_i16x8_s(b1, one), s, t, v128.load_splat<f32>(xScales, 4));
    addScaled(c, 64, i32x4.dot_i16x8_s(a2, one), i32x4.dot_i16x8_s(b2, one), s, t, v128.load_splat<f32>(xScales, 8));
    addScaled(c, 96, i32x4.dot_i16x8_s(a3, one), i32x4.dot_i16x8_s(b3, one), s, t, v128.load_splat<f32>(xScales, 12));
    scales += 32;
    xScales += 16;
  } while (--steps);
}

/** What unpacking did not take away, scale · zero point for every sum of activations, [count][8]. */
function unpackZeros(job: MatMulBlocks, column: i32, count: i32, target: usize): void {
  const blocks = blocksOf(job);
  const width = widthOf(job.scaleType);
  const shift = ctz(job.blockSize) - ctz(summedSize(job.blockSize, job.precision)); // from sums to blocks
  const taken: f32 = job.precision == 8 ? 8 : 0; // already
  for (let i = 0; i < 8; i++) {
    const from = columnAt(job, column + i);
    const scales = job.scales + <usize>(from * blocks * width);
    for (let at = 0; at < count; at++) {
      const block = at >> shift;
      const term = scaleAt(scales + <usize>(block * width), job.scaleType) * (taken - zeroOf(job, from, block));
      store<f32>(target + (at << 5) + (i << 2), term);
    }
  }
}

/** Sums += the activations' sums · what zero points take away. */
function addZeros(job: MatMulBlocks, top: i32, bottom: i32, count: i32, zeros: usize, sums: usize): void {
  for (let row = top; row < bottom; row += 4, sums += 128) {
    addTile(job.aSums + ((<usize>(row * count)) << 2), zeros, count, sums, 32);
  }
}
