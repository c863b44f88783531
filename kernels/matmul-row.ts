/**
 * Few rows of a times b as it lies: memory is read once, in long lines. Where b's rows are contiguous (`bN` is 1) they are added up, each
 * times its elements of a; ranges of them (`splits`) have sums of their own, which matmulMerge joins. Where b's columns are contiguous
 * each has its sum of products.
 */
import { FLOAT16 } from "./codes";
import { readElements, readOne, widthOf } from "./float-types";
import { MatMul } from "./matmul";
import { shareStart } from "./share";
import { fma, gain, load4, loadTail, sum, sums, zero } from "./simd";
import { hasSpecials, isSpecial } from "./specials";

const SUMS: i32 = 32768; // sums of all rows that stay in the second cache while long lines of b go by
const PIECE: i32 = 1024; // columns of b that all rows of a meet before the next are read

/** c, or the partial sums of it, for some of the ranges, or some of the columns. */
export function multiplyFew<T>(job: MatMul, part: i32, parts: i32, scratch: usize): void {
  if (job.bN != 1) {
    const end = shareStart(job.batch * job.n, part + 1, parts);
    for (let task = shareStart(job.batch * job.n, part, parts); task < end; ) {
      const batch = task / job.n;
      const from = task % job.n;
      const to = min(job.n, from + end - task);
      multiplyColumns<T>(job, batch, from, to, scratch);
      task += to - from;
    }
    return;
  }
  const block = SUMS / job.m & ~(PIECE - 1); // columns
  const blocks = (job.n + block - 1) / block;
  const tasks = job.batch * blocks * job.splits;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const batch = task / blocks / job.splits;
    const from = (task / job.splits % blocks) * block;
    multiplyLines<T>(job, batch, task % job.splits, from, min(block, job.n - from), scratch);
  }
}

/** The elements of a from `first` on, `count` of each row, as float32 in scratch, [m][count], with half of what load4 leaves out. */
function readRows<T>(job: MatMul, batch: i32, first: i32, count: i32, scratch: usize): void {
  const width = widthOf(job.aType);
  for (let row = 0; row < job.m; row++) {
    const a = job.a + (batch * job.aBatch + row * job.aRow + first * job.aColumn) * width;
    const target = scratch + (<usize>(row * count) << 2);
    readElements(a, job.aType, job.aColumn, target, count);
    if (gain<T>() == 1) continue;
    for (let p = target; p < target + ((<usize>count) << 2); p += 4) store<f32>(p, load<f32>(p) * gain<T>());
  }
}

/** The sums of one range of b's rows for `columns` columns from `from` on. */
function multiplyLines<T>(job: MatMul, batch: i32, split: i32, from: i32, columns: i32, scratch: usize): void {
  const first = shareStart(job.k, split, job.splits);
  const count = shareStart(job.k, split + 1, job.splits) - first;
  readRows<T>(job, batch, first, count, scratch);
  const whole = job.splits == 1;
  const y = whole ? cOf(job, batch, 0, from) : partialOf(job, batch, split, 0, from);
  const yRow = (<usize>(whole ? job.cRow : job.n)) << 2;
  for (let row = 0; row < job.m; row++) memory.fill(y + row * yRow, 0, (<usize>columns) << 2);
  const pitch = <usize>job.bK * sizeof<T>();
  const b = job.b + <usize>(batch * job.bBatch + first * job.bK + from) * sizeof<T>();
  // Four lines at a time, one from each quarter: while one waits for its next page the others go on.
  const quarter = count >> 2;
  const vectors = columns & ~3;
  for (let at = 0; at < quarter; at++) {
    const x = scratch + ((<usize>at) << 2);
    const w = b + at * pitch;
    for (let done = 0; done < vectors; done += PIECE) {
      const size = min(PIECE, vectors - done);
      for (let row = 0; row < job.m; row++) {
        const xRow = x + ((<usize>(row * count)) << 2);
        addFourLines<T>(xRow, (<usize>quarter) << 2, w + done * sizeof<T>(), quarter * pitch, y + row * yRow + ((<usize>done) << 2), size);
      }
    }
  }
  addSpecials<T>(job, b, pitch, count, columns, true, scratch, count, y, yRow);
  for (let row = 0; row < job.m; row++) {
    const x = scratch + ((<usize>(row * count)) << 2);
    if (vectors < columns) addSingly<T>(x, 0, quarter << 2, b, pitch, y + row * yRow, vectors, columns);
    addSingly<T>(x, quarter << 2, count, b, pitch, y + row * yRow, 0, columns);
    if (whole) finish<T>(y + row * yRow, columns, job.bias ? job.bias + ((<usize>from) << 2) : 0);
  }
}

// @ts-ignore: decorator
@inline
function cOf(job: MatMul, batch: i32, row: i32, column: i32): usize {
  return job.c + ((<usize>(batch * job.cBatch + row * job.cRow + column)) << 2);
}

/** Partial sums lie as [batch][splits][m][n]. */
// @ts-ignore: decorator
@inline
function partialOf(job: MatMul, batch: i32, split: i32, row: i32, column: i32): usize {
  return job.partials + ((<usize>(((batch * job.splits + split) * job.m + row) * job.n + column)) << 2);
}

/** y += x · b for four lines of b, `span` bytes apart; their elements of x are `xStep` bytes apart. */
function addFourLines<T>(x: usize, xStep: usize, w: usize, span: usize, y: usize, columns: i32): void {
  const x0 = v128.load_splat<f32>(x), x1 = v128.load_splat<f32>(x + xStep);
  const x2 = v128.load_splat<f32>(x + 2 * xStep), x3 = v128.load_splat<f32>(x + 3 * xStep);
  let v = w + 2 * span;
  const end = y + ((<usize>columns) << 2);
  do {
    let t = v128.load(y);
    t = fma(load4<T>(w), x0, t);
    t = fma(load4<T>(w + span), x1, t);
    t = fma(load4<T>(v), x2, t);
    t = fma(load4<T>(v + span), x3, t);
    v128.store(y, t);
    y += 16;
    w += 4 * sizeof<T>();
    v += 4 * sizeof<T>();
  } while (y < end);
}

/** y += x · b for the lines from `first` to `end` and the columns from `from` to `to`. */
function addSingly<T>(x: usize, first: i32, end: i32, b: usize, pitch: usize, y: usize, from: i32, to: i32): void {
  for (let at = first; at < end; at++) {
    const factor = load<f32>(x + ((<usize>at) << 2));
    for (let column = from; column < to; column++) {
      const p = y + ((<usize>column) << 2);
      const w = f32x4.extract_lane(loadTail<T>(b + at * pitch + column * sizeof<T>(), 1), 0);
      store<f32>(p, load<f32>(p) + factor * w);
    }
  }
}

/** Restores what load4 left out and adds the bias. */
function finish<T>(y: usize, columns: i32, bias: usize): void {
  if (gain<T>() == 1 && !bias) return;
  for (const end = y + ((<usize>columns) << 2); y < end; y += 4) {
    let value = load<f32>(y) * gain<T>();
    if (bias) {
      value += load<f32>(bias);
      bias += 4;
    }
    store<f32>(y, value);
  }
}

/** c from the partial sums of `splits` ranges; parts share the columns of all rows. */
export function matmulMerge(job: MatMul, part: i32, parts: i32, scratch: usize): void {
  const tasks = job.batch * job.m * job.n;
  const end = shareStart(tasks, part + 1, parts);
  const span = (<usize>(job.m * job.n)) << 2;
  for (let task = shareStart(tasks, part, parts); task < end; ) {
    const column = task % job.n;
    const row = task / job.n % job.m;
    const batch = task / job.n / job.m;
    const count = min(job.n - column, end - task);
    const c = cOf(job, batch, row, column);
    addPartials(partialOf(job, batch, 0, row, column), span, job.splits, c, count);
    const bias = job.bias ? job.bias + ((<usize>column) << 2) : 0;
    if (job.bType == FLOAT16) finish<u16>(c, count, bias);
    else finish<f32>(c, count, bias);
    task += count;
  }
}

function addPartials(p: usize, span: usize, splits: i32, c: usize, count: i32): void {
  for (; count >= 4; count -= 4, p += 16, c += 16) {
    let total = v128.load(p);
    for (let split = 1; split < splits; split++) total = f32x4.add(total, v128.load(p + split * span));
    v128.store(c, total);
  }
  for (; count > 0; count--, p += 4, c += 4) {
    let total = load<f32>(p);
    for (let split = 1; split < splits; split++) total += load<f32>(p + split * span);
    store<f32>(c, total);
  }
}

/** c for the columns from `from` to `to`, each contiguous in b; four are read at once, one from each quarter. */
function multiplyColumns<T>(job: MatMul, batch: i32, from: i32, to: i32, scratch: usize): void {
  readRows<T>(job, batch, 0, job.k, scratch);
  const pitch = <usize>job.bN * sizeof<T>();
  const quarter = (to - from) >> 2;
  for (let column = from; column < from + quarter; column++) {
    const w = job.b + <usize>(batch * job.bBatch + column * job.bN) * sizeof<T>();
    for (let row = 0; row < job.m; row++) {
      const total = fourColumns<T>(scratch + ((<usize>(row * job.k)) << 2), job.k, w, quarter * pitch);
      put<T>(job, batch, row, column, f32x4.extract_lane(total, 0));
      put<T>(job, batch, row, column + quarter, f32x4.extract_lane(total, 1));
      put<T>(job, batch, row, column + 2 * quarter, f32x4.extract_lane(total, 2));
      put<T>(job, batch, row, column + 3 * quarter, f32x4.extract_lane(total, 3));
    }
  }
  for (let column = from + (quarter << 2); column < to; column++) {
    const w = job.b + <usize>(batch * job.bBatch + column * job.bN) * sizeof<T>();
    for (let row = 0; row < job.m; row++) {
      put<T>(job, batch, row, column, oneColumn<T>(scratch + ((<usize>(row * job.k)) << 2), job.k, w));
    }
  }
  const first = job.b + <usize>(batch * job.bBatch + from * job.bN) * sizeof<T>();
  addSpecials<T>(job, first, pitch, to - from, job.k, false, scratch, job.k, cOf(job, batch, 0, from), (<usize>job.cRow) << 2);
}

/**
 * Adds to y what infinities and NaN of float16 give, which load4 takes for numbers: of `lines` lines of b, `bytes` apart, of `size` elements each. They are
 * b's rows (`areRows`), each met by an element of x, or its columns, each of which is an element of y.
 */
function addSpecials<T>(
  job: MatMul, b: usize, bytes: usize, lines: i32, size: i32, areRows: bool, x: usize, xRow: i32, y: usize, yRow: usize,
): void {
  if (!job.looks || !hasSpecials<T>(b, bytes, lines, size)) return;
  for (let line = 0; line < lines; line++, b += bytes) {
    for (let i = 0; i < size; i++) {
      const p = b + ((<usize>i) << 1);
      if (!isSpecial(p)) continue;
      const special = readOne(p, FLOAT16);
      for (let row = 0; row < job.m; row++) {
        const factor = load<f32>(x + ((<usize>(row * xRow + (areRows ? line : i))) << 2));
        const at = y + row * yRow + ((<usize>(areRows ? i : line)) << 2);
        store<f32>(at, load<f32>(at) + special * factor);
      }
    }
  }
}

// @ts-ignore: decorator
@inline
function put<T>(job: MatMul, batch: i32, row: i32, column: i32, value: f32): void {
  const bias: f32 = job.bias ? load<f32>(job.bias + ((<usize>column) << 2)) : 0;
  store<f32>(cOf(job, batch, row, column), value * gain<T>() + bias);
}

/** x · each of four columns that lie `span` bytes apart. */
function fourColumns<T>(x: usize, k: i32, w: usize, span: usize): v128 {
  let a = zero(), b = zero(), c = zero(), d = zero();
  let v = w + 2 * span;
  for (const end = x + ((<usize>(k & ~3)) << 2); x < end; x += 16, w += 4 * sizeof<T>(), v += 4 * sizeof<T>()) {
    const s = v128.load(x);
    a = fma(load4<T>(w), s, a);
    b = fma(load4<T>(w + span), s, b);
    c = fma(load4<T>(v), s, c);
    d = fma(load4<T>(v + span), s, d);
  }
  const left = k & 3;
  if (left) {
    const s = loadTail<f32>(x, left);
    a = fma(loadTail<T>(w, left), s, a);
    b = fma(loadTail<T>(w + span, left), s, b);
    c = fma(loadTail<T>(v, left), s, c);
    d = fma(loadTail<T>(v + span, left), s, d);
  }
  return sums(a, b, c, d);
}

function oneColumn<T>(x: usize, k: i32, w: usize): f32 {
  let a = zero();
  for (const end = x + ((<usize>(k & ~3)) << 2); x < end; x += 16, w += 4 * sizeof<T>()) a = fma(load4<T>(w), v128.load(x), a);
  if (k & 3) a = fma(loadTail<T>(w, k & 3), loadTail<f32>(x, k & 3), a);
  return sum(a);
}
