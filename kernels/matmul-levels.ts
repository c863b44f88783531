/**
 * Weights of 8 or 4 bits as DequantizeLinear takes them, [k, n] with a scale and a zero point for all, for each column, or for each block of
 * rows and column: as panels of float32 for tiles, and as lines that few rows of a stream. Widths are named by AssemblyScript types: i8 for
 * bytes, i32 for nibbles, two to a byte with the first in the low bits; n is even for those. Unsigned elements have their highest bit
 * turned (`flip`) and are read as signed, which takes 128 or 8 away: from zero points too, so that only a missing one must know.
 */
import { INT8, LEVEL_INT4 as INT4 } from "./codes";
import { MatMul } from "./matmul";
import { panelPitch } from "./panels";
import { shareStart } from "./share";
import { fma, zero } from "./simd";

export const BLOCK: i32 = 4096; // columns whose sums stay in the first cache
const PIECE: i32 = 1024; // columns of b that all rows of a meet before the next are read

/** Where the element `at` from p on lies. */
// @ts-ignore: decorator
@inline
function placeOf<T>(p: usize, at: i32): usize {
  return p + <usize>(sizeof<T>() == 4 ? at >> 1 : at);
}

/** The bits that are turned in every byte of b: the highest of unsigned elements. */
// @ts-ignore: decorator
@inline
function flipOf<T>(job: MatMul): v128 {
  if (job.bType == INT8 || job.bType == INT4) return zero();
  return i8x16.splat(<i8>(sizeof<T>() == 4 ? 0x88 : 0x80));
}

/** What is taken from b where there are no zero points. */
// @ts-ignore: decorator
@inline
function noZero<T>(job: MatMul): f32 {
  if (job.bType == INT8 || job.bType == INT4) return 0;
  return sizeof<T>() == 4 ? -8 : -128;
}

/** One element. */
// @ts-ignore: decorator
@inline
function levelAt<T>(p: usize, at: i32, flip: v128): f32 {
  const bits = <i32>load<u8>(placeOf<T>(p, at)) ^ i8x16.extract_lane_u(flip, 0);
  if (sizeof<T>() == 4) return <f32>((bits << (at & 1 ? 24 : 28)) >> 28);
  return <f32>((bits << 24) >> 24);
}

/** Eight elements at p, of which lowFour and highFour make float32. */
// @ts-ignore: decorator
@inline
function loadEight<T>(p: usize, flip: v128): v128 {
  if (sizeof<T>() == 4) return v128.xor(v128.load_splat<i32>(p), flip);
  return i16x8.extend_low_i8x16_s(v128.xor(v128.load_zero<i64>(p), flip));
}

// @ts-ignore: decorator
@inline
function lowFour<T>(eight: v128): v128 {
  if (sizeof<T>() == 4) return nibbles(i32x4.mul(eight, i32x4(1 << 28, 1 << 24, 1 << 20, 1 << 16)));
  return f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(eight));
}

// @ts-ignore: decorator
@inline
function highFour<T>(eight: v128): v128 {
  if (sizeof<T>() == 4) return nibbles(i32x4.mul(eight, i32x4(1 << 12, 1 << 8, 1 << 4, 1)));
  return f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(eight));
}

/** The four highest bits of each lane. */
// @ts-ignore: decorator
@inline
function nibbles(lanes: v128): v128 {
  return f32x4.convert_i32x4_s(i32x4.shr_s(lanes, 28));
}

/** Where the scale, or zero point, of a column in a block of rows is among them. */
// @ts-ignore: decorator
@inline
function scaleIndex(job: MatMul, block: i32, column: i32): i32 {
  return block * job.scaleK + column * job.scaleN;
}

/** Four scales from a column on. */
// @ts-ignore: decorator
@inline
function scales4(job: MatMul, block: i32, column: i32): v128 {
  const p = job.scale + ((<usize>scaleIndex(job, block, column)) << 2);
  return job.scaleN ? v128.load(p) : v128.load_splat<f32>(p);
}

/** Panels of the rows from `first` on and the columns from `from` on, as packColumns makes them. */
export function packLevels<T>(job: MatMul, first: i32, depth: i32, from: i32, columns: i32, target: usize): void {
  const pitch = panelPitch(depth);
  const flip = flipOf<T>(job);
  if (columns & 7) memory.fill(target + (columns >> 3) * pitch, 0, (<usize>depth) << 5);
  for (let at = 0; at < depth; at++, target += 32) {
    const block = (first + at) / job.block;
    const row = placeOf<T>(job.b, (first + at) * job.n);
    const one = job.zero && !job.scaleN ? levelAt<T>(job.zero, scaleIndex(job, block, 0), flip) : noZero<T>(job);
    let y = f32x4.splat(one), z = y;
    let t = target;
    let column = 0;
    for (; column + 8 <= columns; column += 8, t += pitch) {
      const eight = loadEight<T>(placeOf<T>(row, from + column), flip);
      if (job.zero && job.scaleN) {
        const zeros = loadEight<T>(placeOf<T>(job.zero, scaleIndex(job, block, from + column)), flip);
        y = lowFour<T>(zeros);
        z = highFour<T>(zeros);
      }
      v128.store(t, f32x4.mul(f32x4.sub(lowFour<T>(eight), y), scales4(job, block, from + column)));
      v128.store(t, f32x4.mul(f32x4.sub(highFour<T>(eight), z), scales4(job, block, from + column + 4)), 16);
    }
    for (; column < columns; column++) {
      const index = scaleIndex(job, block, from + column);
      const none = job.zero ? levelAt<T>(job.zero, index, flip) : one;
      const value = levelAt<T>(row, from + column, flip) - none;
      store<f32>(t + ((column & 7) << 2), value * load<f32>(job.scale + ((<usize>index) << 2)));
    }
  }
}

/** c, or the partial sums of it, for some of the ranges of rows; as multiplyFew. a is float32 with contiguous rows. */
export function multiplyFewLevels<T>(job: MatMul, part: i32, parts: i32, scratch: usize): void {
  const wide = (job.n + BLOCK - 1) / BLOCK;
  const tasks = wide * job.splits;
  const end = shareStart(tasks, part + 1, parts);
  const blocks = (job.k + job.block - 1) / job.block;
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const split = task % job.splits;
    const from = (task / job.splits) * BLOCK;
    const columns = min(BLOCK, job.n - from);
    const whole = job.splits == 1;
    const y = whole ? job.c : job.partials + ((<usize>(split * job.m * job.n)) << 2);
    const yRow = (<usize>(whole ? job.cRow : job.n)) << 2;
    for (let row = 0; row < job.m; row++) {
      const target = y + row * yRow + ((<usize>from) << 2);
      if (whole && job.bias) memory.copy(target, job.bias + ((<usize>from) << 2), (<usize>columns) << 2);
      else memory.fill(target, 0, (<usize>columns) << 2);
    }
    const endBlock = shareStart(blocks, split + 1, job.splits);
    for (let block = shareStart(blocks, split, job.splits); block < endBlock; block++) {
      multiplyRows<T>(job, block, from, columns, y + ((<usize>from) << 2), yRow, scratch);
    }
  }
}

/** y += the product with one block of rows, whose sums, before the scales, are in scratch. */
function multiplyRows<T>(job: MatMul, block: i32, from: i32, columns: i32, y: usize, yRow: usize, scratch: usize): void {
  const first = block * job.block;
  const count = min(job.block, job.k - first);
  const b = placeOf<T>(job.b, first * job.n);
  const rowBytes = (<usize>columns) << 2;
  const eights = columns & ~7;
  const flip = flipOf<T>(job);
  memory.fill(scratch, 0, rowBytes * job.m);
  // Four lines at a time, one from each quarter; those left over one by one, with three that count for nothing.
  const quarter = count >> 2;
  for (let at = 0; at < quarter + (count & 3); at++) {
    const single = at >= quarter;
    const line = single ? (quarter << 2) + at - quarter : at;
    const span = single ? 0 : placeOf<T>(0, quarter * job.n);
    for (let done = 0; done < eights; done += PIECE) {
      const size = min(PIECE, eights - done);
      const w = placeOf<T>(b, line * job.n + from + done);
      for (let row = 0; row < job.m; row++) {
        const x = job.a + ((<usize>(row * job.aRow + first + line)) << 2);
        addFour<T>(x, single ? 0 : (<usize>quarter) << 2, w, span, flip, scratch + row * rowBytes + ((<usize>done) << 2), size);
      }
    }
  }
  for (let row = 0; row < job.m; row++) {
    const x = job.a + ((<usize>(row * job.aRow + first)) << 2);
    const sums = scratch + row * rowBytes;
    let total: f32 = 0;
    for (let at = 0; at < count; at++) total += load<f32>(x + ((<usize>at) << 2));
    for (let column = eights; column < columns; column++) {
      let sum: f32 = 0;
      for (let at = 0; at < count; at++) sum += load<f32>(x + ((<usize>at) << 2)) * levelAt<T>(b, at * job.n + from + column, flip);
      store<f32>(sums + ((<usize>column) << 2), sum);
    }
    addScaled<T>(job, block, from, columns, total, sums, y + row * yRow);
  }
}

/** y += x · w for eight columns at a time of four lines that lie `span` bytes apart; of one line only where xStep is 0. */
function addFour<T>(x: usize, xStep: usize, w: usize, span: usize, flip: v128, y: usize, columns: i32): void {
  const x0 = v128.load_splat<f32>(x);
  let x1 = zero(), x2 = zero(), x3 = zero();
  if (xStep) {
    x1 = v128.load_splat<f32>(x + xStep);
    x2 = v128.load_splat<f32>(x + 2 * xStep);
    x3 = v128.load_splat<f32>(x + 3 * xStep);
  }
  const end = y + ((<usize>columns) << 2);
  do {
    let a = v128.load(y), b = v128.load(y, 16);
    let eight = loadEight<T>(w, flip);
    a = fma(lowFour<T>(eight), x0, a);
    b = fma(highFour<T>(eight), x0, b);
    eight = loadEight<T>(w + span, flip);
    a = fma(lowFour<T>(eight), x1, a);
    b = fma(highFour<T>(eight), x1, b);
    eight = loadEight<T>(w + 2 * span, flip);
    a = fma(lowFour<T>(eight), x2, a);
    b = fma(highFour<T>(eight), x2, b);
    eight = loadEight<T>(w + 3 * span, flip);
    a = fma(lowFour<T>(eight), x3, a);
    b = fma(highFour<T>(eight), x3, b);
    v128.store(y, a);
    v128.store(y, b, 16);
    y += 32;
    w = placeOf<T>(w, 8);
  } while (y < end);
}

/** y += (sums - zero points · total) · scales. */
function addScaled<T>(job: MatMul, block: i32, from: i32, columns: i32, total: f32, sums: usize, y: usize): void {
  const flip = flipOf<T>(job);
  const none = noZero<T>(job);
  const t = f32x4.splat(total);
  let p = f32x4.splat(none), q = p;
  let column = 0;
  for (; column + 8 <= columns && job.scaleN; column += 8, sums += 32, y += 32) {
    if (job.zero) {
      const zeros = loadEight<T>(placeOf<T>(job.zero, scaleIndex(job, block, from + column)), flip);
      p = lowFour<T>(zeros);
      q = highFour<T>(zeros);
    }
    const a = f32x4.sub(v128.load(sums), f32x4.mul(p, t)), b = f32x4.sub(v128.load(sums, 16), f32x4.mul(q, t));
    v128.store(y, f32x4.add(v128.load(y), f32x4.mul(a, scales4(job, block, from + column))));
    v128.store(y, f32x4.add(v128.load(y, 16), f32x4.mul(b, scales4(job, block, from + column + 4))), 16);
  }
  for (; column < columns; column++, sums += 4, y += 4) {
    const index = scaleIndex(job, block, from + column);
    const sum = load<f32>(sums) - (job.zero ? levelAt<T>(job.zero, index, flip) : none) * total;
    store<f32>(y, load<f32>(y) + sum * load<f32>(job.scale + ((<usize>index) << 2)));
  }
}
