/**
 * c = a · b + bias in float32, with b as it lies. Few rows stream b (matmul-row.ts). More rows work in tiles of 4 rows by 8 columns: a was
 * packed for that by packRows, and b is packed block by block, as float32, into scratch.
 */
import { BFLOAT16, FLOAT16, FLOAT32, INT8, UINT8 } from "./codes";
import { readElements, widthOf } from "./float-types";
import { BLOCK, multiplyFewLevels, packLevels } from "./matmul-levels";
import { multiplyFew } from "./matmul-row";
import { DEPTH, packColumns, panelPitch, startSums, storeSums } from "./panels";
import { shareStart } from "./share";
import { fma, zero } from "./simd";

/**
 * c = a · b + bias; c is float32. For few rows `rows` is 0, and b has contiguous rows or columns: the former may be divided into ranges with sums
 * of their own, which matmulMerge joins. For many rows packRows, run before on the same job, puts a form of a into `rows`.
 */
@unmanaged
export class MatMul {
  a: usize; // [batch, m, k]
  b: usize; // [batch, k, n]
  c: usize; // float32[batch, m, n]
  bias: usize; // float32[n], optional
  rows: usize; // packedRowBytes, or 0
  partials: usize; // float32[batch, splits, m, n], optional with splits = 1
  aType: i32; // elementCode
  bType: i32; // elementCode of a float type, or levelCode
  m: i32;
  n: i32;
  k: i32;
  aRow: i32; // strides
  aColumn: i32;
  bK: i32; // n, 1 for ONNX's [K, N]; 1, k for [N, K]
  bN: i32;
  cRow: i32;
  batch: i32;
  aBatch: i32;
  bBatch: i32; // 0 to share
  cBatch: i32;
  splits: i32; // of k, for few rows and bN = 1; else 1
  looks: i32; // 1: b of float16 may hold infinities and NaN; 0: it is known to hold none
  scale: usize; // float32, for a levelCode: b is [k, n], batch is 1; for few rows a is float32 with contiguous rows
  zero: usize; // of b's type, optional
  scaleK: i32; // strides of both: from block to block, and from column to column, which is 0 or 1
  scaleN: i32;
  block: i32; // rows of b that share them
  panels: i32; // of eight columns that are packed at a time, for many rows: panelsAtOnce
}

const ROWS: i32 = 128; // of a block of a, which stays in the second cache
const SUMS: usize = ROWS * 32; // bytes of the sums of a panel
const PANEL: usize = DEPTH * 32 + 64 + SUMS; // bytes of a panel and its sums

/** The product; parts share the panels of eight columns of all blocks of rows and all batches. */
export function matmul(job: MatMul, part: i32, parts: i32, scratch: usize): void {
  if (!job.rows) {
    const type = job.bType;
    if (type == FLOAT32) multiplyFew<f32>(job, part, parts, scratch);
    else if (type == FLOAT16) multiplyFew<u16>(job, part, parts, scratch);
    else if (type == BFLOAT16) multiplyFew<i16>(job, part, parts, scratch);
    else if (type == INT8 || type == UINT8) multiplyFewLevels<i8>(job, part, parts, scratch);
    else multiplyFewLevels<i32>(job, part, parts, scratch);
    return;
  }
  const panels = (job.n + 7) >> 3;
  const blocks = (job.m + ROWS - 1) / ROWS;
  const tasks = job.batch * blocks * panels;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; ) {
    const from = task % panels;
    const to = min(min(panels, from + end - task), from + job.panels);
    multiplyBlock(job, task / panels / blocks, ((task / panels) % blocks) * ROWS, from, to, scratch);
    task += to - from;
  }
}

/** Panels with their sums; for few rows what multiplyFew reads of a, or the sums of multiplyFewLevels. */
export function matmulScratch(job: MatMul): usize {
  if (job.rows) return <usize>job.panels * PANEL;
  return <usize>job.m * 4 * (job.scale ? min(BLOCK, job.n) : (job.k + job.splits - 1) / job.splits);
}

/**
 * How many panels a product of many rows packs at a time: the longer the pieces of rows that are read, the nearer to memory's speed.
 * @host
 */
export function panelsAtOnce(columns: i32, scratch: usize): i32 {
  return max(1, min(min(64, (columns + 7) >> 3), <i32>(scratch / PANEL)));
}

/**
 * Bytes of `rows` of a matmul's job.
 * @host
 */
export function packedRowBytes(job: MatMul): usize {
  return <usize>job.batch * ((job.m + 3) & ~3) * job.k * 4;
}

/** c for the rows of a block, from `firstRow` on, and the panels from `from` to `to`. */
function multiplyBlock(job: MatMul, batch: i32, firstRow: i32, from: i32, to: i32, scratch: usize): void {
  const rows = min(ROWS, job.m - firstRow);
  const groups = (job.m + 3) >> 2;
  // Scratch: sums [panels][rows / 4][4][8], since rows of c that lie a power of two apart share few sets of the caches; the panels.
  const sums = scratch;
  const block = sums + <usize>(to - from) * SUMS;
  const a = job.rows + (<usize>(batch * groups) * job.k << 4);
  const b = job.b + <usize>(batch * job.bBatch + (from << 3) * job.bN) * widthOf(job.bType);
  const columns = min(job.n, to << 3) - (from << 3);
  for (let column = 0; column < columns; column += 8) {
    const bias = job.bias ? job.bias + ((<usize>((from << 3) + column)) << 2) : 0;
    startSums(sums + <usize>(column >> 3) * SUMS, rows, bias, columns - column);
  }
  for (let first = 0; first < job.k; first += DEPTH) {
    const depth = min(DEPTH, job.k - first);
    if (job.bType <= BFLOAT16) {
      packColumns(b + first * job.bK * widthOf(job.bType), job.bType, job.bK, job.bN, columns, depth, block);
    } else if (job.bType == INT8 || job.bType == UINT8) packLevels<i8>(job, first, depth, from << 3, columns, block);
    else packLevels<i32>(job, first, depth, from << 3, columns, block);
    const x = a + ((<usize>(first * groups + (firstRow >> 2) * depth)) << 4);
    for (let panel = 0; panel << 3 < columns; panel++) {
      let tile = sums + <usize>panel * SUMS;
      const p = block + <usize>panel * panelPitch(depth);
      let q = x;
      for (const end = tile + ((<usize>rows) << 5); tile < end; tile += 128, q += (<usize>depth) << 4) addTile(q, p, depth, tile, 32);
    }
  }
  const c = job.c + ((<usize>(batch * job.cBatch + firstRow * job.cRow + (from << 3))) << 2);
  for (let column = 0; column < columns; column += 8) {
    storeSums(sums + <usize>(column >> 3) * SUMS, rows, c + ((<usize>column) << 2), (<usize>job.cRow) << 2, columns - column);
  }
}

/** c += a · b for 4 rows and 8 columns: a is [count][4], b is [count][8]. */
export function addTile(a: usize, b: usize, count: i32, c: usize, rowBytes: usize): void {
  let a0 = zero(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  const end = b + ((<usize>count) << 5);
  do {
    const x = v128.load(b), y = v128.load(b, 16);
    let s = v128.load_splat<f32>(a);
    a0 = fma(x, s, a0);
    b0 = fma(y, s, b0);
    s = v128.load_splat<f32>(a, 4);
    a1 = fma(x, s, a1);
    b1 = fma(y, s, b1);
    s = v128.load_splat<f32>(a, 8);
    a2 = fma(x, s, a2);
    b2 = fma(y, s, b2);
    s = v128.load_splat<f32>(a, 12);
    a3 = fma(x, s, a3);
    b3 = fma(y, s, b3);
    a += 16;
    b += 32;
  } while (b < end);
  addVectors(c, a0, b0);
  addVectors(c + rowBytes, a1, b1);
  addVectors(c + 2 * rowBytes, a2, b2);
  addVectors(c + 3 * rowBytes, a3, b3);
}

// @ts-ignore: decorator
@inline
function addVectors(c: usize, a: v128, b: v128): void {
  v128.store(c, f32x4.add(v128.load(c), a));
  v128.store(c, f32x4.add(v128.load(c, 16), b), 16);
}

/**
 * Packs a for tiles into `rows`, which matmul then reads: [k / DEPTH][m / 4][DEPTH][4] for each batch, with zeros for rows that are not there; parts share the fours of rows.
 */
export function packRows(job: MatMul, part: i32, parts: i32, scratch: usize): void {
  const groups = (job.m + 3) >> 2;
  const tasks = job.batch * groups;
  const width = widthOf(job.aType);
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const batch = task / groups;
    const row = (task % groups) << 2;
    const a = job.a + (batch * job.aBatch + row * job.aRow) * width;
    const direct = job.aType == FLOAT32 && job.aColumn == 1 && row + 4 <= job.m;
    for (let first = 0; first < job.k; first += DEPTH) {
      const depth = min(DEPTH, job.k - first);
      const target = job.rows + ((<usize>(batch * groups * job.k + first * groups + (row >> 2) * depth)) << 4);
      let p = a + first * job.aColumn * width;
      if (direct) {
        weaveRows(p, (<usize>job.aRow) << 2, depth, target);
        continue;
      }
      for (let i = 0; i < 4; i++, p += job.aRow * width) {
        const line = scratch + i * DEPTH * 4;
        if (row + i >= job.m) memory.fill(line, 0, (<usize>depth) << 2);
        else readElements(p, job.aType, job.aColumn, line, depth);
      }
      weaveRows(scratch, DEPTH * 4, depth, target);
    }
  }
}

/** Four rows of a block as float32. */
export function packRowsScratch(job: MatMul): usize {
  return 4 * DEPTH * 4;
}

/** Four rows that lie `step` bytes apart to [count][4]. */
export function weaveRows(p: usize, step: usize, count: i32, target: usize): void {
  weave(p, step, count, target, 16);
}

/** Four rows that lie `step` bytes apart to [count][4], with `next` bytes from one four to the next. */
export function weave(p: usize, step: usize, count: i32, target: usize, next: usize): void {
  let left = count;
  for (; left >= 4; left -= 4, p += 16, target += 4 * next) {
    const a = v128.load(p), b = v128.load(p + step), c = v128.load(p + 2 * step), d = v128.load(p + 3 * step);
    const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5), cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
    const AB = v128.shuffle<i32>(a, b, 2, 6, 3, 7), CD = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
    v128.store(target, v128.shuffle<i64>(ab, cd, 0, 2));
    v128.store(target + next, v128.shuffle<i64>(ab, cd, 1, 3));
    v128.store(target + 2 * next, v128.shuffle<i64>(AB, CD, 0, 2));
    v128.store(target + 3 * next, v128.shuffle<i64>(AB, CD, 1, 3));
  }
  for (; left > 0; left--, p += 4, target += next) {
    store<f32>(target, load<f32>(p));
    store<f32>(target, load<f32>(p + step), 4);
    store<f32>(target, load<f32>(p + 2 * step), 8);
    store<f32>(target, load<f32>(p + 3 * step), 12);
  }
}
