/**
 * Many rows of activations times block-quantized weights, in tiles of 4 rows by 8 columns. Eight rows of weights are unpacked, some
 * elements at a time, into a panel that all tiles then read: [units][8 columns][4 bytes], a unit being two elements of 16 bits or four of 8.
 */
import { blocksOf, weightBytes, zeroOf } from "./blocks";
import { FLOAT32, readOne, widthOf } from "./float-types";
import { MatMulBlocks } from "./jobs";
import { addTile, weave } from "./matmul";
import { addEight } from "./panels";
import { isPermuted, paddedLength, panelDepth, summedSize, tiledBytes } from "./quantize-rows";
import { fma, zero } from "./simd";

/** All rows of c, columns from `from`, a multiple of 8, to `to`. */
export function multiplyTiles(job: MatMulBlocks, from: i32, to: i32, scratch: usize): void {
  const length = paddedLength(job.k, job.blockSize);
  for (let row = 0; row < job.m; row++) {
    const target = job.c + ((<usize>(row * job.cRow + from)) << 2);
    if (job.bias) memory.copy(target, job.bias + ((<usize>from) << 2), (<usize>(to - from)) << 2);
    else memory.fill(target, 0, (<usize>(to - from)) << 2);
  }
  // Scratch: a tile of sums, the scales of a panel, the panel, its rows before they are woven.
  const tile = scratch;
  const scales = tile + 128;
  const panel = scales + 1024;
  const rows = panel + 8192;
  const depth = panelDepth(job.precision);
  for (let first = 0; first < length; first += depth) {
    const count = min(depth, length - first);
    for (let column = from; column < to; column += 8) {
      unpackScales(job, column, first, count, scales);
      unpackPanel(job, column, first, count, rows, panel);
      for (let row = 0; row < job.m; row += 4) {
        if (job.precision == 16) multiply16(job, row, column, length, first, count, panel, scales, tile);
        else if (ASC_FEATURE_RELAXED_SIMD) multiply8(job, row, column, length, first, count, panel, scales, tile);
      }
    }
  }
  if (job.zeros && (job.precision == 8 || job.zerosType >= 0)) subtractZeros(job, from, to, scratch);
}

/** True where a tile lies within c. */
// @ts-ignore: decorator
@inline
function isWhole(job: MatMulBlocks, row: i32, column: i32): bool {
  return row + 4 <= job.m && column + 8 <= job.n;
}

/** Adds a tile of sums to c, as far as c goes. */
function addToRows(job: MatMulBlocks, row: i32, column: i32, tile: usize): void {
  const end = tile + ((<usize>min(4, job.m - row)) << 5);
  let c = job.c + ((<usize>(row * job.cRow + column)) << 2);
  for (; tile < end; tile += 32, c += (<usize>job.cRow) << 2) {
    addEight(c, job.n - column, v128.load(tile), v128.load(tile, 16));
  }
}

// @ts-ignore: decorator
@inline
function clearTile(tile: usize): void {
  for (const end = tile + 128; tile < end; tile += 32) {
    v128.store(tile, zero());
    v128.store(tile, zero(), 16);
  }
}

/** Elements whose integer products are summed before a scale is applied. */
// @ts-ignore: decorator
@inline
function stepSize(job: MatMulBlocks): i32 {
  return job.precision == 8 ? 32 : min(job.blockSize, 256);
}

/** Scales of eight columns for the steps of a panel, [steps][8]; zeros for columns that are not there. */
function unpackScales(job: MatMulBlocks, column: i32, first: i32, count: i32, target: usize): void {
  const step = stepSize(job);
  const shift = ctz(job.blockSize);
  const width = widthOf(job.scaleType);
  const row = blocksOf(job) * width;
  const columns = min(8, job.n - column);
  if (columns == 8 && width == 4 && step == job.blockSize) {
    const p = job.scales + (<usize>(column * blocksOf(job) + (first >> shift)) << 2);
    weave(p, row, count >> shift, target, 32);
    weave(p + 4 * row, row, count >> shift, target + 16, 32);
    return;
  }
  for (let at = first; at < first + count; at += step, target += 32) {
    let p = job.scales + <usize>(column * blocksOf(job) + (at >> shift)) * width;
    for (let i = 0; i < 8; i++, p += row) {
      store<f32>(target + (i << 2), i < columns ? scaleAt(p, job.scaleType) : 0);
    }
  }
}

// @ts-ignore: decorator
@inline
function scaleAt(p: usize, type: i32): f32 {
  return type == FLOAT32 ? load<f32>(p) : readOne(p, type);
}

/** Eight rows of weights, in the activations' order: signed 16-bit integers, or nibbles as bytes. */
function unpackPanel(job: MatMulBlocks, column: i32, first: i32, count: i32, rows: usize, panel: usize): void {
  const bytes = count * (job.precision >> 3);
  for (let i = 0; i < 8; i++) {
    const target = rows + i * bytes;
    if (column + i >= job.n) {
      memory.fill(target, 0, bytes);
      continue;
    }
    const w = job.b + <usize>((column + i) * weightBytes(job) + ((first * job.bits) >> 3));
    if (job.precision == 8) unpackNibbles(w, count, target);
    else if (job.bits == 8) unpack8(job, column + i, w, first, count, target);
    else if (isPermuted(job.bits, job.blockSize)) unpack4(job, column + i, w, first, count, target);
    else unpackSmall(job, column + i, w, first, count, target);
  }
  weaveEight(rows, bytes, panel);
}

/** The integer zero point that unpacking takes away: none where zero points are floats. */
function unpackedZero(job: MatMulBlocks, column: i32, element: i32): i32 {
  if (job.zeros && job.zerosType >= 0) return 0;
  return <i32>zeroOf(job, column, element >> ctz(job.blockSize));
}

function unpackNibbles(w: usize, count: i32, target: usize): void {
  const low = i8x16.splat(15);
  for (const end = target + count; target < end; target += 32, w += 16) {
    const nibbles = v128.load(w);
    v128.store(target, v128.and(nibbles, low));
    v128.store(target, v128.and(i16x8.shr_u(nibbles, 4), low), 16);
  }
}

function unpack8(job: MatMulBlocks, column: i32, w: usize, first: i32, count: i32, target: usize): void {
  let zeroPoint = i16x8.splat(128);
  for (let at = first; at < first + count; at += 16, target += 32, w += 16) {
    if (job.zeros) zeroPoint = i16x8.splat(<i16>unpackedZero(job, column, at));
    v128.store(target, i16x8.sub(v128.load_ext<u8>(w), zeroPoint));
    v128.store(target, i16x8.sub(v128.load_ext<u8>(w, 8), zeroPoint), 16);
  }
}

function unpack4(job: MatMulBlocks, column: i32, w: usize, first: i32, count: i32, target: usize): void {
  const low = i16x8.splat(15);
  let zeroPoint = i16x8.splat(8);
  for (let at = first; at < first + count; at += 32, target += 64, w += 16) {
    if (job.zeros) zeroPoint = i16x8.splat(<i16>unpackedZero(job, column, at));
    const nibbles = v128.load(w);
    v128.store(target, i16x8.sub(v128.and(nibbles, low), zeroPoint));
    v128.store(target, i16x8.sub(v128.and(i16x8.shr_u(nibbles, 4), low), zeroPoint), 16);
    v128.store(target, i16x8.sub(v128.and(i16x8.shr_u(nibbles, 8), low), zeroPoint), 32);
    v128.store(target, i16x8.sub(i16x8.shr_u(nibbles, 12), zeroPoint), 48);
  }
}

/** Blocks of 16, and 2 bits: element by element. */
function unpackSmall(job: MatMulBlocks, column: i32, w: usize, first: i32, count: i32, target: usize): void {
  const bits = job.bits;
  for (let i = 0; i < count; i++, target += 2) {
    const value = (<i32>load<u8>(w + ((i * bits) >> 3)) >> ((i * bits) & 7)) & ((1 << bits) - 1);
    store<i16>(target, <i16>(value - unpackedZero(job, column, first + i)));
  }
}

/** Eight rows of `bytes` to [bytes / 4][8][4 bytes]. */
export function weaveEight(rows: usize, bytes: usize, panel: usize): void {
  weaveFour(rows, bytes, panel);
  weaveFour(rows + 4 * bytes, bytes, panel + 16);
}

export function weaveFour(p: usize, bytes: usize, target: usize): void {
  for (const end = p + bytes; p < end; p += 16, target += 128) {
    const a = v128.load(p), b = v128.load(p + bytes), c = v128.load(p + 2 * bytes), d = v128.load(p + 3 * bytes);
    const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5), cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
    const AB = v128.shuffle<i32>(a, b, 2, 6, 3, 7), CD = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
    v128.store(target, v128.shuffle<i64>(ab, cd, 0, 2));
    v128.store(target, v128.shuffle<i64>(ab, cd, 1, 3), 32);
    v128.store(target, v128.shuffle<i64>(AB, CD, 0, 2), 64);
    v128.store(target, v128.shuffle<i64>(AB, CD, 1, 3), 96);
  }
}

/** c += activations of 16 bits · a panel, a group of activations that share a scale at a time. */
function multiply16(
  job: MatMulBlocks, row: i32, column: i32, length: i32, first: i32, count: i32, panel: usize, scales: usize, tile: usize,
): void {
  const step = stepSize(job);
  const shift = ctz(step);
  const groups = (length + 255) >> 8;
  const whole = isWhole(job, row, column);
  const target = whole ? job.c + ((<usize>(row * job.cRow + column)) << 2) : tile;
  const rowBytes: usize = whole ? (<usize>job.cRow) << 2 : 32;
  let xScales = job.aScales + ((<usize>(row * groups + (first >> 8) * 4)) << 2);
  let x = job.values + <usize>(first * ((job.m + 3) & ~3) + row * count) * 2;
  if (!whole) clearTile(tile);
  for (let group = 0; group < count; group += 256, xScales += 16) {
    const size = min(256, count - group);
    addSteps16(x, panel, size >> shift, (<usize>step) << 3, scales, xScales, target, rowBytes);
    x += <usize>size * 8;
    panel += <usize>size * 16;
    scales += (<usize>(size >> shift)) << 5;
  }
  if (!whole) addToRows(job, row, column, tile);
}

/** c += x · w, step by step of `bytes` of x, each times the scales of columns and rows. */
function addSteps16(
  x: usize, w: usize, steps: i32, bytes: usize, scales: usize, xScales: usize, c: usize, rowBytes: usize,
): void {
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
    addScaled(c, a0, b0, s, t, v128.load_splat<f32>(xScales));
    addScaled(c + rowBytes, a1, b1, s, t, v128.load_splat<f32>(xScales, 4));
    addScaled(c + 2 * rowBytes, a2, b2, s, t, v128.load_splat<f32>(xScales, 8));
    addScaled(c + 3 * rowBytes, a3, b3, s, t, v128.load_splat<f32>(xScales, 12));
    scales += 32;
  } while (--steps);
}

// @ts-ignore: decorator
@inline
function addScaled(c: usize, a: v128, b: v128, s: v128, t: v128, x: v128): void {
  v128.store(c, fma(f32x4.convert_i32x4_s(a), f32x4.mul(s, x), v128.load(c)));
  v128.store(c, fma(f32x4.convert_i32x4_s(b), f32x4.mul(t, x), v128.load(c, 16)), 16);
}

/** c += activations of 8 bits · a panel of nibbles. */
function multiply8(
  job: MatMulBlocks, row: i32, column: i32, length: i32, first: i32, count: i32, panel: usize, scales: usize, tile: usize,
): void {
  const x = job.values + tiledBytes(first * ((job.m + 3) & ~3) + row * count);
  const xScales = job.aScales + ((<usize>((row * length) >> 5) + ((first >> 5) << 2)) << 2);
  if (isWhole(job, row, column)) {
    addSteps8(x, panel, count >> 5, scales, xScales, job.c + ((<usize>(row * job.cRow + column)) << 2), (<usize>job.cRow) << 2);
    return;
  }
  clearTile(tile);
  addSteps8(x, panel, count >> 5, scales, xScales, tile, 32);
  addToRows(job, row, column, tile);
}

/**
 * c += x · w, 32 elements at a time, each times the scales of columns and rows. Sums start at what a zero point of 8 takes away, so that
 * 16 bits hold them: they may wrap on the way.
 */
function addSteps8(x: usize, w: usize, steps: i32, scales: usize, xScales: usize, c: usize, rowBytes: usize): void {
  const one = i16x8.splat(1);
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
    addScaled(c, i32x4.dot_i16x8_s(a0, one), i32x4.dot_i16x8_s(b0, one), s, t, v128.load_splat<f32>(xScales));
    addScaled(c + rowBytes, i32x4.dot_i16x8_s(a1, one), i32x4.dot_i16x8_s(b1, one), s, t, v128.load_splat<f32>(xScales, 4));
    addScaled(c + 2 * rowBytes, i32x4.dot_i16x8_s(a2, one), i32x4.dot_i16x8_s(b2, one), s, t, v128.load_splat<f32>(xScales, 8));
    addScaled(c + 3 * rowBytes, i32x4.dot_i16x8_s(a3, one), i32x4.dot_i16x8_s(b3, one), s, t, v128.load_splat<f32>(xScales, 12));
    scales += 32;
    xScales += 16;
  } while (--steps);
}

/** Takes away what unpacking did not: a product of the activations' sums with scale · zero point. */
function subtractZeros(job: MatMulBlocks, from: i32, to: i32, scratch: usize): void {
  const blocks = blocksOf(job);
  const width = widthOf(job.scaleType);
  const shift = ctz(job.blockSize) - ctz(summedSize(job.blockSize, job.precision)); // from sums to blocks
  const count = blocks << shift;
  const tile = scratch;
  const panel = tile + 128; // [count][8]
  const taken: f32 = job.precision == 8 ? 8 : 0; // already
  for (let column = from; column < to; column += 8) {
    for (let i = 0; i < 8; i++) {
      let target = panel + (i << 2);
      const scales = job.scales + <usize>((column + i) * blocks) * width;
      for (let at = 0; at < count; at++, target += 32) {
        let term: f32 = 0;
        if (column + i < job.n) {
          term = scaleAt(scales + (at >> shift) * width, job.scaleType) * (taken - zeroOf(job, column + i, at >> shift));
        }
        store<f32>(target, term);
      }
    }
    for (let row = 0; row < job.m; row += 4) {
      clearTile(tile);
      addTile(job.aSums + ((<usize>(row * count)) << 2), panel, count, tile, 32);
      addToRows(job, row, column, tile);
    }
  }
}
