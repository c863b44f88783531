/**
 * Products with block-quantized weights in float32: activations are taken as they are. Few rows meet weights as those are unpacked; more
 * rows, packed by packRows, meet panels of eight columns as in matmul.ts.
 */
import { blocksOf, weightBytes, zeroOf } from "./blocks";
import { FLOAT32 } from "./codes";
import { readOne, readRow, widthOf } from "./float-types";
import { addTile, weave } from "./matmul";
import { MatMulBlocks } from "./matmul-blocks";
import { DEPTH, startSums, storeSums } from "./panels";
import { paddedLength } from "./quantize-rows";
import { fma, interleaveHigh, interleaveLow, sum, zero } from "./simd";

const ROWS: i32 = 128; // of a block of a
const SPAN: i32 = 1024; // elements of a panel: long pieces of the rows of weights are read

/** All rows of c, columns from `from` to `to`. a's rows lie as float32 in scratch, zero behind their end. */
export function multiplyFewFloats(job: MatMulBlocks, from: i32, to: i32, scratch: usize): void {
  const length = paddedLength(job.k, job.blockSize);
  const rowBytes = (<usize>length) << 2;
  for (let row = 0; row < job.m; row++) {
    const x = scratch + row * rowBytes;
    memory.fill(x + ((<usize>job.k) << 2), 0, (<usize>(length - job.k)) << 2);
    readRow(job.a + <usize>row * job.k * widthOf(job.aType), job.aType, x, job.k);
  }
  for (let column = from; column < to; column++) {
    for (let row = 0; row < job.m; row++) {
      const total = job.bits == 8 ? dot8(job, scratch + row * rowBytes, column) : dot4(job, scratch + row * rowBytes, column);
      const bias: f32 = job.bias ? load<f32>(job.bias + ((<usize>column) << 2)) : 0;
      store<f32>(job.c + ((<usize>(row * job.cRow + column)) << 2), total + bias);
    }
  }
}

/** A row of a · a column of weights of 4 bits: the sum of each block, times its scale. */
function dot4(job: MatMulBlocks, x: usize, column: i32): f32 {
  const blocks = blocksOf(job);
  const bytes = (<usize>min(job.blockSize, (job.k + 31) & ~31)) << 2;
  const low = i8x16.splat(15);
  const width = widthOf(job.scaleType);
  let w = job.b + <usize>column * weightBytes(job);
  let p = job.scales + <usize>(column * blocks * width);
  let total = zero();
  for (let block = 0; block < blocks; block++, p += width) {
    const z = i8x16.splat(job.zeros ? <i8>zeroOf(job, column, block) : 8);
    let a = zero(), b = zero(), c = zero(), d = zero();
    const end = x + bytes;
    do {
      const q = v128.load(w);
      const even = v128.and(q, low), odd = v128.and(i16x8.shr_u(q, 4), low);
      const first = i8x16.sub(interleaveLow(even, odd), z), second = i8x16.sub(interleaveHigh(even, odd), z);
      const f = i16x8.extend_low_i8x16_s(first), g = i16x8.extend_high_i8x16_s(first);
      a = fma(lowFour(f), v128.load(x), a);
      b = fma(highFour(f), v128.load(x, 16), b);
      c = fma(lowFour(g), v128.load(x, 32), c);
      d = fma(highFour(g), v128.load(x, 48), d);
      const h = i16x8.extend_low_i8x16_s(second), i = i16x8.extend_high_i8x16_s(second);
      a = fma(lowFour(h), v128.load(x, 64), a);
      b = fma(highFour(h), v128.load(x, 80), b);
      c = fma(lowFour(i), v128.load(x, 96), c);
      d = fma(highFour(i), v128.load(x, 112), d);
      x += 128;
      w += 16;
    } while (x < end);
    total = fma(f32x4.add(f32x4.add(a, b), f32x4.add(c, d)), f32x4.splat(scaleAt(p, job.scaleType)), total);
  }
  return sum(total);
}

/** The same with weights of 8 bits. */
function dot8(job: MatMulBlocks, x: usize, column: i32): f32 {
  const blocks = blocksOf(job);
  const bytes = (<usize>min(job.blockSize, (job.k + 31) & ~31)) << 2;
  const width = widthOf(job.scaleType);
  let w = job.b + <usize>column * weightBytes(job);
  let p = job.scales + <usize>(column * blocks * width);
  let total = zero();
  for (let block = 0; block < blocks; block++, p += width) {
    const z = i16x8.splat(job.zeros ? <i16>zeroOf(job, column, block) : 128);
    let a = zero(), b = zero(), c = zero(), d = zero();
    const end = x + bytes;
    do {
      const f = i16x8.sub(v128.load_ext<u8>(w), z), g = i16x8.sub(v128.load_ext<u8>(w, 8), z);
      a = fma(lowFour(f), v128.load(x), a);
      b = fma(highFour(f), v128.load(x, 16), b);
      c = fma(lowFour(g), v128.load(x, 32), c);
      d = fma(highFour(g), v128.load(x, 48), d);
      x += 64;
      w += 16;
    } while (x < end);
    total = fma(f32x4.add(f32x4.add(a, b), f32x4.add(c, d)), f32x4.splat(scaleAt(p, job.scaleType)), total);
  }
  return sum(total);
}

// @ts-ignore: decorator
@inline
function lowFour(eight: v128): v128 {
  return f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(eight));
}

// @ts-ignore: decorator
@inline
function highFour(eight: v128): v128 {
  return f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(eight));
}

// @ts-ignore: decorator
@inline
function scaleAt(p: usize, type: i32): f32 {
  return type == FLOAT32 ? load<f32>(p) : readOne(p, type);
}

/** All rows of c, columns from `from`, a multiple of 8, to `to`. */
export function multiplyFloats(job: MatMulBlocks, from: i32, to: i32, scratch: usize): void {
  const groups = (job.m + 3) >> 2;
  // Scratch: sums [rows / 4][4][8], the weights of eight columns [8][SPAN], the panel [SPAN][8].
  const lines = scratch + ROWS * 32;
  const panel = lines + SPAN * 32;
  for (let column = from; column < to; column += 8) {
    for (let top = 0; top < job.m; top += ROWS) {
      const rows = min(ROWS, job.m - top);
      startSums(scratch, rows, job.bias ? job.bias + ((<usize>column) << 2) : 0, job.n - column);
      for (let start = 0; start < job.k; start += SPAN) {
        const end = min(job.k, start + SPAN);
        for (let i = 0; i < 8; i++) unpackColumn(job, min(column + i, job.n - 1), start, end, lines + (<usize>i * SPAN << 2));
        weave(lines, SPAN << 2, end - start, panel, 32);
        weave(lines + (SPAN << 4), SPAN << 2, end - start, panel + 16, 32);
        for (let first = start; first < end; first += DEPTH) {
          const depth = min(DEPTH, job.k - first);
          const part = panel + ((<usize>(first - start)) << 5);
          let x = job.rows + ((<usize>(first * groups + (top >> 2) * depth)) << 4);
          let tile = scratch;
          for (const last = tile + ((<usize>rows) << 5); tile < last; tile += 128, x += (<usize>depth) << 4) addTile(x, part, depth, tile, 32);
        }
      }
      storeSums(scratch, rows, job.c + ((<usize>(top * job.cRow + column)) << 2), (<usize>job.cRow) << 2, job.n - column);
    }
  }
}

/** A column's weights from `start` to `end` as float32. A column that is not there is the last one again: what it sums is not stored. */
function unpackColumn(job: MatMulBlocks, column: i32, start: i32, end: i32, target: usize): void {
  const size = job.blockSize;
  const bits = job.bits;
  const w = job.b + <usize>column * weightBytes(job);
  for (let at = start; at < end; ) {
    const block = at / size;
    const z = f32x4.splat(zeroOf(job, column, block)), s = scaleOf(job, column, block);
    const stop = min(end, (block + 1) * size);
    if (bits == 4) {
      const low = i8x16.splat(15);
      for (; at + 32 <= stop; at += 32, target += 128) {
        const q = v128.load(w + (at >> 1));
        const even = v128.and(q, low), odd = v128.and(i16x8.shr_u(q, 4), low);
        const first = interleaveLow(even, odd), second = interleaveHigh(even, odd);
        putEight(i16x8.extend_low_i8x16_u(first), z, s, target);
        putEight(i16x8.extend_high_i8x16_u(first), z, s, target + 32);
        putEight(i16x8.extend_low_i8x16_u(second), z, s, target + 64);
        putEight(i16x8.extend_high_i8x16_u(second), z, s, target + 96);
      }
    } else if (bits == 8) for (; at + 8 <= stop; at += 8, target += 32) putEight(v128.load_ext<u8>(w + at), z, s, target);
    for (; at < stop; at++, target += 4) {
      const level = (<i32>load<u8>(w + ((at * bits) >> 3)) >> ((at * bits) & 7)) & ((1 << bits) - 1);
      store<f32>(target, (<f32>level - f32x4.extract_lane(z, 0)) * f32x4.extract_lane(s, 0));
    }
  }
}

/** (levels - zero point) · scale of eight. */
// @ts-ignore: decorator
@inline
function putEight(eight: v128, z: v128, s: v128, target: usize): void {
  v128.store(target, f32x4.mul(f32x4.sub(lowFour(eight), z), s));
  v128.store(target, f32x4.mul(f32x4.sub(highFour(eight), z), s), 16);
}

// @ts-ignore: decorator
@inline
function scaleOf(job: MatMulBlocks, column: i32, block: i32): v128 {
  return f32x4.splat(scaleAt(job.scales + <usize>((column * blocksOf(job) + block) * widthOf(job.scaleType)), job.scaleType));
}

/** Bytes of scratch for activations that are given: rows in float32, or a panel of weights and its sums. */
export function floatsBytes(job: MatMulBlocks): usize {
  return job.rows == 0
    ? (<usize>job.m * <usize>paddedLength(job.k, job.blockSize)) << 2
    : (128 + 2 * 1024) * 32;
}
