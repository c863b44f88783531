/**
 * c = a · b + bias in float32, with b in panels. One row streams the panels; more rows work in tiles of 4 rows by 8 columns, over blocks
 * of a that were packed so that a tile reads both its operands in a straight line.
 */
import { FLOAT16, FLOAT32, readOne, readRow, widthOf } from "./float-types";
import { MatMul } from "./jobs";
import { addEight, rowTimesPanels } from "./panels";
import { shareStart } from "./share";
import { fma, gain, load4, zero } from "./simd";

const ROWS: i32 = 128; // of a block of a
const DEPTH: i32 = 256;
const FEW: i32 = 16; // rows whose block may be as deep as k

/** The product; parts share the panels of all batches. */
export function matmul(at: usize, part: i32, parts: i32, scratch: usize): void {
  const job = changetype<MatMul>(at);
  const panels = (job.n + 7) >> 3;
  const tasks = job.batch * panels;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; ) {
    const batch = task / panels;
    const from = task % panels;
    const to = min(panels, from + end - task);
    startColumns(job, batch, from << 3, min(job.n, to << 3));
    if (job.bType == FLOAT32) multiply<f32>(job, batch, from, to, scratch);
    else if (job.bType == FLOAT16) multiply<u16>(job, batch, from, to, scratch);
    else multiply<i16>(job, batch, from, to, scratch);
    task += to - from;
  }
}

/** Sets the columns from `from` to `to` of c to the bias. */
function startColumns(job: MatMul, batch: i32, from: i32, to: i32): void {
  const bytes = <usize>(to - from) << 2;
  for (let row = 0; row < job.m; row++) {
    const target = job.c + ((<usize>(batch * job.cBatch + row * job.cRow + from)) << 2);
    if (job.bias) memory.copy(target, job.bias + ((<usize>from) << 2), bytes);
    else memory.fill(target, 0, bytes);
  }
}

/** Adds a · the panels from `from` to `to`. */
function multiply<T>(job: MatMul, batch: i32, from: i32, to: i32, scratch: usize): void {
  const width = widthOf(job.aType);
  const a = job.a + batch * job.aBatch * width;
  const b = job.b + <usize>(batch * job.bBatch) * sizeof<T>();
  const c = job.c + ((<usize>(batch * job.cBatch)) << 2);
  if (job.m == 1) {
    let x = a;
    if (job.aType != FLOAT32 || job.aColumn != 1 || gain<T>() != 1) {
      x = scratch;
      readElements(a, job.aType, job.aColumn, x, job.k);
      if (gain<T>() != 1) {
        for (let p = x; p < x + (<usize>job.k << 2); p += 4) store<f32>(p, load<f32>(p) * gain<T>());
      }
    }
    const w = b + <usize>from * job.k * 8 * sizeof<T>();
    rowTimesPanels<T>(x, job.k, w, to - from, c + ((<usize>from) << 5), job.n - (from << 3));
    return;
  }
  const depth = job.m <= FEW ? job.k : DEPTH;
  // Scratch: a panel's block as float32, a tile, four rows of a, the block of a.
  const panel = scratch;
  const tile = panel + ((<usize>DEPTH) << 5);
  const rows = tile + 128;
  const packed = rows + ((<usize>DEPTH) << 4);
  for (let firstRow = 0; firstRow < job.m; firstRow += ROWS) {
    const endRow = min(job.m, firstRow + ROWS);
    for (let first = 0; first < job.k; first += depth) {
      const count = min(depth, job.k - first);
      packBlock(job, a, firstRow, endRow, first, count, rows, packed);
      for (let at = from; at < to; at++) {
        multiplyPanel<T>(job, b, c, at, firstRow, endRow, first, count, packed, panel, tile);
      }
    }
  }
}

/** Adds the product of a block of a with `count` rows of one panel. */
function multiplyPanel<T>(
  job: MatMul, b: usize, c: usize, at: i32, firstRow: i32, endRow: i32, first: i32, count: i32,
  packed: usize, panel: usize, tile: usize,
): void {
  const rowBytes = (<usize>job.cRow) << 2;
  const columns = min(8, job.n - (at << 3));
  const isWhole = columns == 8;
  // In pieces of DEPTH rows, since that is what fits into `panel` where it has to be converted.
  for (let done = 0; done < count; done += DEPTH) {
    const depth = min(DEPTH, count - done);
    let w = b + (<usize>at * job.k + first + done) * 8 * sizeof<T>();
    if (sizeof<T>() != 4) {
      unpack<T>(w, panel, depth);
      w = panel;
    }
    for (let row = firstRow; row < endRow; row += 4) {
      const x = packed + (<usize>(row - firstRow) * count + 4 * done) * 4;
      const target = c + row * rowBytes + ((<usize>at) << 5);
      if (isWhole && row + 4 <= endRow) {
        addTile(x, w, depth, target, rowBytes);
        continue;
      }
      memory.fill(tile, 0, 128);
      addTile(x, w, depth, tile, 32);
      for (let i = 0; i < min(4, endRow - row); i++) {
        addEight(target + i * rowBytes, columns, v128.load(tile + i * 32), v128.load(tile + i * 32, 16));
      }
    }
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

/** `count` rows of a panel to float32. */
function unpack<T>(source: usize, target: usize, count: i32): void {
  const factor = f32x4.splat(gain<T>() * gain<T>());
  for (const end = target + ((<usize>count) << 5); target < end; target += 16, source += 4 * sizeof<T>()) {
    v128.store(target, gain<T>() == 1 ? load4<T>(source) : f32x4.mul(load4<T>(source), factor));
  }
}

/** Packs the rows from `from` to `to` and `count` columns from `first` of a as [rows / 4][count][4], zeros for rows that are not there. */
function packBlock(job: MatMul, a: usize, from: i32, to: i32, first: i32, count: i32, rows: usize, packed: usize): void {
  const width = widthOf(job.aType);
  const direct = job.aType == FLOAT32 && job.aColumn == 1;
  for (let row = from; row < to; row += 4) {
    // Where the rows cannot be read as they are, DEPTH columns at a time through `rows`.
    for (let done = 0; done < count; ) {
      const depth = direct && row + 4 <= to ? count - done : min(DEPTH, count - done);
      let p = a + (row * job.aRow + (first + done) * job.aColumn) * width;
      let step = (<usize>job.aRow) << 2;
      if (!direct || row + 4 > to) {
        for (let i = 0; i < 4; i++) {
          const target = rows + i * DEPTH * 4;
          if (row + i >= to) memory.fill(target, 0, (<usize>depth) << 2);
          else readElements(p + i * job.aRow * width, job.aType, job.aColumn, target, depth);
        }
        p = rows;
        step = DEPTH * 4;
      }
      weaveRows(p, step, depth, packed);
      packed += (<usize>depth) << 4;
      done += depth;
    }
  }
}

/** Elements that lie `step` apart to float32. */
function readElements(source: usize, type: i32, step: i32, target: usize, count: i32): void {
  if (step == 1) {
    readRow(source, type, target, count);
    return;
  }
  for (const end = target + ((<usize>count) << 2); target < end; target += 4, source += step * widthOf(type)) {
    store<f32>(target, readOne(source, type));
  }
}

/** Four rows that lie `step` bytes apart to [count][4]. */
export function weaveRows(p: usize, step: usize, count: i32, target: usize): void {
  let left = count;
  for (; left >= 4; left -= 4, p += 16, target += 64) {
    const a = v128.load(p), b = v128.load(p + step), c = v128.load(p + 2 * step), d = v128.load(p + 3 * step);
    const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5), cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
    const AB = v128.shuffle<i32>(a, b, 2, 6, 3, 7), CD = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
    v128.store(target, v128.shuffle<i64>(ab, cd, 0, 2));
    v128.store(target, v128.shuffle<i64>(ab, cd, 1, 3), 16);
    v128.store(target, v128.shuffle<i64>(AB, CD, 0, 2), 32);
    v128.store(target, v128.shuffle<i64>(AB, CD, 1, 3), 48);
  }
  for (; left > 0; left--, p += 4, target += 16) {
    store<f32>(target, load<f32>(p));
    store<f32>(target, load<f32>(p + step), 4);
    store<f32>(target, load<f32>(p + 2 * step), 8);
    store<f32>(target, load<f32>(p + 3 * step), 12);
  }
}
