/** Blocks of weights as panels of eight columns in float32, [panels][depth][8], made in scratch from weights as they lie. */
import { BFLOAT16, FLOAT32 } from "./codes";
import { fromFloat16, readOne, widthOf } from "./float-types";
import { weave } from "./matmul";

/** Rows of weights in a block. */
export const DEPTH: i32 = 256;

/** Bytes from one panel to the next: panels that lie a power of two apart would share sets of the first cache. */
// @ts-ignore: decorator
@inline
export function panelPitch(depth: i32): usize {
  return ((<usize>depth) << 5) + 64;
}

/** Packs `columns` columns of `depth` elements; b's elements lie stepK and stepN apart. What a last panel lacks is zero. */
export function packColumns(b: usize, type: i32, stepK: i32, stepN: i32, columns: i32, depth: i32, target: usize): void {
  const whole = columns >> 3;
  const width = widthOf(type);
  if (stepN == 1) {
    if (type == FLOAT32) packLines<f32>(b, stepK, whole, depth, target);
    else if (type == BFLOAT16) packLines<i16>(b, stepK, whole, depth, target);
    else packLines<u16>(b, stepK, whole, depth, target);
  } else if (stepK == 1 && type == FLOAT32) {
    const step = (<usize>stepN) << 2;
    for (let panel = 0; panel < whole; panel++) {
      const p = b + <usize>(panel << 3) * step;
      weave(p, step, depth, target + panel * panelPitch(depth), 32);
      weave(p + 4 * step, step, depth, target + panel * panelPitch(depth) + 16, 32);
    }
  } else packSingly(b, type, stepK, stepN, whole << 3, depth, target);
  if (columns & 7) {
    const last = target + whole * panelPitch(depth);
    memory.fill(last, 0, (<usize>depth) << 5);
    packSingly(b + (whole << 3) * stepN * width, type, stepK, stepN, columns & 7, depth, last);
  }
}

/**
 * Whole panels of rows whose elements lie side by side: along the rows, as memory likes to be read, and of float32 eight of them at a
 * time, so that whole lines of the caches are written and memory has enough to do.
 */
function packLines<T>(b: usize, stepK: i32, panels: i32, depth: i32, target: usize): void {
  const pitch = panelPitch(depth);
  const bytes = <usize>stepK * sizeof<T>();
  const width = <usize>panels * 8 * sizeof<T>();
  let at = 0;
  for (; sizeof<T>() == 4 && at + 8 <= depth; at += 8, b += 8 * bytes, target += 256) {
    let t = target;
    for (let p = b; p < b + width; p += 8 * sizeof<T>(), t += pitch) {
      putEight<T>(p, t);
      putEight<T>(p + bytes, t + 32);
      putEight<T>(p + 2 * bytes, t + 64);
      putEight<T>(p + 3 * bytes, t + 96);
      putEight<T>(p + 4 * bytes, t + 128);
      putEight<T>(p + 5 * bytes, t + 160);
      putEight<T>(p + 6 * bytes, t + 192);
      putEight<T>(p + 7 * bytes, t + 224);
    }
  }
  for (; at < depth; at++, b += bytes, target += 32) {
    let t = target;
    for (let p = b; p < b + width; p += 8 * sizeof<T>(), t += pitch) putEight<T>(p, t);
  }
}

// @ts-ignore: decorator
@inline
function putEight<T>(p: usize, target: usize): void {
  v128.store(target, readFour<T>(p));
  v128.store(target, readFour<T>(p + 4 * sizeof<T>()), 16);
}

// @ts-ignore: decorator
@inline
function readFour<T>(p: usize): v128 {
  if (isFloat<T>()) return v128.load(p);
  if (isSigned<T>()) return i32x4.shl(v128.load_ext<u16>(p), 16);
  return fromFloat16(v128.load_ext<u16>(p));
}

/** Element by element. */
function packSingly(b: usize, type: i32, stepK: i32, stepN: i32, columns: i32, depth: i32, target: usize): void {
  const width = widthOf(type);
  for (let column = 0; column < columns; column++, b += stepN * width) {
    let t = target + (column >> 3) * panelPitch(depth) + ((column & 7) << 2);
    let p = b;
    for (let at = 0; at < depth; at++, p += stepK * width, t += 32) store<f32>(t, readOne(p, type));
  }
}

/** Sets the sums of `rows` rows of a panel, [rows][8] with whole fours of rows, to the bias of up to eight columns, or to zero if that is 0. */
export function startSums(sums: usize, rows: i32, bias: usize, columns: i32): void {
  let a = i32x4.splat(0), b = a;
  if (bias) {
    memory.fill(sums, 0, 32);
    memory.copy(sums, bias, (<usize>min(8, columns)) << 2);
    a = v128.load(sums);
    b = v128.load(sums, 16);
  }
  for (const end = sums + ((<usize>((rows + 3) & ~3)) << 5); sums < end; sums += 32) {
    v128.store(sums, a);
    v128.store(sums, b, 16);
  }
}

/** Copies the sums of a panel to rows of c, as far as those go. */
export function storeSums(sums: usize, rows: i32, c: usize, rowBytes: usize, columns: i32): void {
  for (const end = sums + ((<usize>rows) << 5); sums < end; sums += 32, c += rowBytes) {
    if (columns >= 8) {
      v128.store(c, v128.load(sums));
      v128.store(c, v128.load(sums, 16), 16);
    } else memory.copy(c, sums, (<usize>columns) << 2);
  }
}

/** The other way round: takes up the sums that rows of c hold. */
export function loadSums(sums: usize, rows: i32, c: usize, rowBytes: usize, columns: i32): void {
  const bytes = (<usize>min(8, columns)) << 2;
  for (const end = sums + ((<usize>rows) << 5); sums < end; sums += 32, c += rowBytes) memory.copy(sums, c, bytes);
}
