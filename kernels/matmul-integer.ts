/**
 * MatMulInteger: (a - aZero) · (b - bZero) in 32-bit integers, with b as it lies, [k, n]. Both sides become 16 bits wide, which holds
 * any difference of bytes; sums wrap as 32-bit integers do.
 */
import { shareStart } from "./share";
import { zero } from "./simd";

/** (a - aZero) · (b - bZero) in 32-bit integers: MatMulInteger. */
@unmanaged
export class MatMulInteger {
  a: usize; // [m, k] bytes
  b: usize; // [k, n] bytes
  c: usize; // int32[m, n]
  aZero: usize; // optional bytes, 0 if absent
  bZero: usize;
  aSigned: i32; // 1 for int8, 0 for uint8
  bSigned: i32;
  aZeroStep: i32; // 0: one for all; 1: one a row
  bZeroStep: i32; // 0: one for all; 1: one a column
  m: i32;
  n: i32;
  k: i32;
  cRow: i32; // stride
}

const DEPTH: i32 = 256; // elements of a panel
const ROWS: i32 = 128; // of a block of a
const PANELS: i32 = 16; // of a block of b

/** The product; parts share the panels of eight columns. */
export function matmulInteger(job: MatMulInteger, part: i32, parts: i32, scratch: usize): void {
  const panels = (job.n + 7) >> 3;
  const end = shareStart(panels, part + 1, parts);
  for (let panel = shareStart(panels, part, parts); panel < end; panel += PANELS) {
    const from = panel << 3;
    const to = min(job.n, min(end, panel + PANELS) << 3);
    for (let row = 0; row < job.m; row++) {
      memory.fill(job.c + ((<usize>(row * job.cRow + from)) << 2), 0, (<usize>(to - from)) << 2);
    }
    for (let row = 0; row < job.m; row += ROWS) multiplyBlock(job, row, min(job.m, row + ROWS), from, to, scratch);
  }
}

/** A tile, four rows, the zero points of the columns, the block of a, the panels of b. */
export function matmulIntegerScratch(job: MatMulInteger): usize {
  return 128 + DEPTH * 8 + PANELS * 16 + ROWS * DEPTH * 2 + PANELS * (DEPTH * 16 + 64);
}

// @ts-ignore: decorator
@inline
function zeroPoint(p: usize, signed: i32, at: i32): i32 {
  if (!p) return 0;
  return signed ? <i32>load<i8>(p + at) : <i32>load<u8>(p + at);
}

/** `count` bytes less the zero point, as 16 bits. */
function widen(p: usize, signed: i32, zeroPoint: i32, count: i32, target: usize): void {
  const z = i16x8.splat(<i16>zeroPoint);
  for (; count >= 8; count -= 8, p += 8, target += 16) {
    v128.store(target, i16x8.sub(signed ? v128.load_ext<i8>(p) : v128.load_ext<u8>(p), z));
  }
  for (; count > 0; count--, p++, target += 2) {
    store<i16>(target, <i16>((signed ? <i32>load<i8>(p) : <i32>load<u8>(p)) - zeroPoint));
  }
}

/** Adds the product of the rows from `first` to `end` with the columns from `from` to `to`. */
function multiplyBlock(job: MatMulInteger, first: i32, end: i32, from: i32, to: i32, scratch: usize): void {
  // Scratch: a tile, four rows, the zero points of the columns, the block of a, the panels of b.
  const tile = scratch;
  const rows = tile + 128;
  const zeros = rows + DEPTH * 8;
  const block = zeros + PANELS * 16;
  const panels = block + ROWS * DEPTH * 2;
  for (let i = 0; i < PANELS * 8; i++) {
    store<i16>(zeros + (i << 1), from + i < to ? <i16>zeroPoint(job.bZero, job.bSigned, (from + i) * job.bZeroStep) : 0);
  }
  for (let k = 0; k < job.k; k += DEPTH) {
    const count = min(DEPTH, job.k - k);
    const units = (count + 1) >> 1; // pairs of elements, zero behind the end
    const bytes = ((<usize>units + 3) & ~3) << 2; // of a row: whole vectors
    for (let row = first; row < end; row += 4) {
      memory.fill(rows, 0, 4 * bytes);
      for (let i = row; i < min(end, row + 4); i++) {
        const zeroOfA = zeroPoint(job.aZero, job.aSigned, i * job.aZeroStep);
        widen(job.a + <usize>i * job.k + k, job.aSigned, zeroOfA, count, rows + (i - row) * bytes);
      }
      weaveBy(rows, bytes, block + (row - first) * bytes);
    }
    const pitch = ((<usize>units) << 5) + 64; // no power of two
    packPairs(job, k, count, from, to, zeros, panels, pitch);
    for (let column = from; column < to; column += 8) {
      const panel = panels + ((column - from) >> 3) * pitch;
      for (let row = first; row < end; row += 4) {
        multiplyTile(block + (row - first) * bytes, panel, (<usize>units) << 2, tile);
        addTile(job, row, end, column, to, tile);
      }
    }
  }
}

/** Rows of b from k on, two at a time, to panels [pairs][8 columns][2 elements], less the zero points. */
function packPairs(job: MatMulInteger, k: i32, count: i32, from: i32, to: i32, zeros: usize, panels: usize, pitch: usize): void {
  const whole = (to - from) >> 3;
  let target = panels;
  for (let at = 0; at < count; at += 2, target += 32) {
    const p = job.b + <usize>(k + at) * job.n + from;
    const second = at + 1 < count ? <usize>job.n : 0;
    let t = target;
    for (let panel = 0; panel < whole; panel++, t += pitch) {
      const z = v128.load(zeros + (panel << 4));
      const x = i16x8.sub(eight(p + (panel << 3), job.bSigned), z);
      let y = i16x8.splat(0);
      if (second) y = i16x8.sub(eight(p + second + (panel << 3), job.bSigned), z);
      v128.store(t, v128.shuffle<i16>(x, y, 0, 8, 1, 9, 2, 10, 3, 11));
      v128.store(t, v128.shuffle<i16>(x, y, 4, 12, 5, 13, 6, 14, 7, 15), 16);
    }
    for (let i = whole << 3; i < to - from; i++) {
      const z = <i32>load<i16>(zeros + (i << 1));
      store<i16>(t + ((i & 7) << 2), <i16>(zeroPoint(p + i, job.bSigned, 0) - z));
      store<i16>(t + ((i & 7) << 2), second ? <i16>(zeroPoint(p + second + i, job.bSigned, 0) - z) : 0, 2);
    }
  }
}

/** Eight bytes at p as 16 bits. */
// @ts-ignore: decorator
@inline
function eight(p: usize, signed: i32): v128 {
  return signed ? v128.load_ext<i8>(p) : v128.load_ext<u8>(p);
}

/** Four rows of `bytes` to [bytes / 4][4][4 bytes]. */
function weaveBy(p: usize, bytes: usize, target: usize): void {
  for (const end = p + bytes; p < end; p += 4, target += 16) {
    store<u32>(target, load<u32>(p));
    store<u32>(target, load<u32>(p + bytes), 4);
    store<u32>(target, load<u32>(p + 2 * bytes), 8);
    store<u32>(target, load<u32>(p + 3 * bytes), 12);
  }
}

/** tile = x · w for 4 rows and 8 columns of `bytes` each. */
function multiplyTile(x: usize, w: usize, bytes: usize, tile: usize): void {
  let a0 = zero(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  const end = x + (bytes << 2);
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
  v128.store(tile, a0);
  v128.store(tile, b0, 16);
  v128.store(tile, a1, 32);
  v128.store(tile, b1, 48);
  v128.store(tile, a2, 64);
  v128.store(tile, b2, 80);
  v128.store(tile, a3, 96);
  v128.store(tile, b3, 112);
}

/** Adds a tile to c, as far as c goes. */
function addTile(job: MatMulInteger, row: i32, endRow: i32, column: i32, endColumn: i32, tile: usize): void {
  const columns = min(8, endColumn - column);
  for (let i = row; i < min(endRow, row + 4); i++, tile += 32) {
    const c = job.c + ((<usize>(i * job.cRow + column)) << 2);
    for (let j = 0; j < columns; j++) {
      store<i32>(c + (j << 2), load<i32>(c + (j << 2)) + load<i32>(tile + (j << 2)));
    }
  }
}
