/**
 * MatMulInteger: (a - aZero) · (b - bZero) in 32-bit integers, with b as [n, k]. Both sides become 16 bits wide, which holds any
 * difference of bytes; sums wrap as 32-bit integers do.
 */
import { weaveEight } from "./blocks-tile";
import { MatMulInteger } from "./jobs";
import { shareStart } from "./share";
import { zero } from "./simd";

const DEPTH: i32 = 256; // elements of a panel
const ROWS: i32 = 128; // of a block of a
const FEW: i32 = 4; // rows that are multiplied one by one

/** Parts share the columns. */
export function matmulInteger(at: usize, part: i32, parts: i32, scratch: usize): void {
  const job = changetype<MatMulInteger>(at);
  const panels = (job.n + 7) >> 3;
  const from = shareStart(panels, part, parts) << 3;
  const to = min(job.n, shareStart(panels, part + 1, parts) << 3);
  if (from >= to) return;
  if (job.m <= FEW) {
    for (let row = 0; row < job.m; row++) {
      widen(job.a + <usize>row * job.k, job.aSigned, zeroPoint(job.aZero, job.aSigned, row * job.aZeroStep), job.k, scratch);
      for (let column = from; column < to; column++) {
        store<i32>(job.c + ((<usize>(row * job.cRow + column)) << 2), dot(job, column, scratch));
      }
    }
    return;
  }
  for (let row = 0; row < job.m; row++) memory.fill(job.c + ((<usize>(row * job.cRow + from)) << 2), 0, (<usize>(to - from)) << 2);
  for (let row = 0; row < job.m; row += ROWS) multiplyBlock(job, row, min(job.m, row + ROWS), from, to, scratch);
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

/** A widened row times a column. */
function dot(job: MatMulInteger, column: i32, x: usize): i32 {
  const signed = job.bSigned;
  const zeroOfB = zeroPoint(job.bZero, signed, column * job.bZeroStep);
  const z = i16x8.splat(<i16>zeroOfB);
  let w = job.b + <usize>column * job.k;
  let a = zero(), b = zero();
  let left = job.k;
  for (; left >= 16; left -= 16, w += 16, x += 32) {
    const p = signed ? v128.load_ext<i8>(w) : v128.load_ext<u8>(w);
    const q = signed ? v128.load_ext<i8>(w, 8) : v128.load_ext<u8>(w, 8);
    a = i32x4.add(a, i32x4.dot_i16x8_s(i16x8.sub(p, z), v128.load(x)));
    b = i32x4.add(b, i32x4.dot_i16x8_s(i16x8.sub(q, z), v128.load(x, 16)));
  }
  a = i32x4.add(a, b);
  let total = i32x4.extract_lane(a, 0) + i32x4.extract_lane(a, 1) + i32x4.extract_lane(a, 2) + i32x4.extract_lane(a, 3);
  for (; left > 0; left--, w++, x += 2) {
    total += ((signed ? <i32>load<i8>(w) : <i32>load<u8>(w)) - zeroOfB) * <i32>load<i16>(x);
  }
  return total;
}

/** Adds the product of the rows from `first` to `end` with the columns from `from` to `to`. */
function multiplyBlock(job: MatMulInteger, first: i32, end: i32, from: i32, to: i32, scratch: usize): void {
  // Scratch: a tile, a panel of b, eight rows, the block of a.
  const tile = scratch;
  const panel = tile + 128;
  const rows = panel + DEPTH * 16;
  const block = rows + DEPTH * 16;
  for (let k = 0; k < job.k; k += DEPTH) {
    const count = min(DEPTH, job.k - k);
    const bytes = ((<usize>count + 7) & ~7) << 1; // of a row: whole vectors, zero behind the end
    for (let row = first; row < end; row += 4) {
      memory.fill(rows, 0, 4 * bytes);
      for (let i = row; i < min(end, row + 4); i++) {
        const zeroOfA = zeroPoint(job.aZero, job.aSigned, i * job.aZeroStep);
        widen(job.a + <usize>i * job.k + k, job.aSigned, zeroOfA, count, rows + (i - row) * bytes);
      }
      weaveBy(rows, bytes, block + (row - first) * bytes);
    }
    for (let column = from; column < to; column += 8) {
      memory.fill(rows, 0, 8 * bytes);
      for (let i = column; i < min(to, column + 8); i++) {
        const zeroOfB = zeroPoint(job.bZero, job.bSigned, i * job.bZeroStep);
        widen(job.b + <usize>i * job.k + k, job.bSigned, zeroOfB, count, rows + (i - column) * bytes);
      }
      weaveEight(rows, bytes, panel);
      for (let row = first; row < end; row += 4) {
        multiplyTile(block + (row - first) * bytes, panel, bytes, tile);
        addTile(job, row, end, column, to, tile);
      }
    }
  }
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
