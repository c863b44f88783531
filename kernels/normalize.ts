/**
 * Rows brought to unit size: by the root of their mean square, with or without the mean taken off first. In float32, and a row whose squares
 * float32 does not hold once more in float64.
 */
import { FLOAT32 } from "./codes";
import { readOne, readRow, widthOf, writeOne, writeRow } from "./float-types";
import { shareStart } from "./share";
import { fma, sum, zero } from "./simd";

/** RMSNormalization and LayerNormalization over rows, with the residual's addition of the Skip variants. */
@unmanaged
export class Normalize {
  source: usize; // [rows, size]
  skip: usize; // [rows, size], optional: added before
  sum: usize; // [rows, size], optional: where source + skip + addend goes; may be source or skip
  scale: usize; // [size], optional
  bias: usize; // [size], optional
  output: usize; // [rows, size]; may be source
  type: i32; // elementCode of all
  rows: i32;
  size: i32;
  sourceRow: i32; // strides
  skipRow: i32;
  sumRow: i32;
  outputRow: i32;
  epsilon: f32;
  addend: usize; // [size], optional: added to every row before, and part of sum
  mean: usize; // float32[rows], optional: where each row's mean goes
  inverse: usize; // float32[rows], optional: where 1 / √(variance or mean square + epsilon) goes
}

/** RMSNormalization of one part of the rows. */
export function rmsNormalize(job: Normalize, part: i32, parts: i32, scratch: usize): void {
  normalize(job, part, parts, scratch, false);
}

/** LayerNormalization of one part of the rows. */
export function layerNormalize(job: Normalize, part: i32, parts: i32, scratch: usize): void {
  normalize(job, part, parts, scratch, true);
}

/** The row where it is not normalized as it lies, and two pieces. */
export function rmsNormalizeScratch(job: Normalize): usize {
  const row = job.type != FLOAT32 || job.skip != 0 || job.addend != 0 ? ((<usize>job.size + 3) >> 2) << 4 : 0;
  return row + 2 * PIECE * 4;
}

export function layerNormalizeScratch(job: Normalize): usize {
  return rmsNormalizeScratch(job);
}

/** Elements that are converted at a time. */
const PIECE: i32 = 256;

/** Below this a sum of squares may have lost some of them: the smallest that float32 holds are 1e-45. */
const LEAST: f32 = 1e-30;

function normalize(job: Normalize, part: i32, parts: i32, scratch: usize, centered: bool): void {
  const size = job.size;
  const type = job.type;
  const width = widthOf(type);
  const pieces = scratch + (((<usize>size + 3) >> 2) << 4); // behind the row: scales, biases and addends as float32
  const end = shareStart(job.rows, part + 1, parts);
  for (let row = shareStart(job.rows, part, parts); row < end; row++) {
    let x = job.source + row * job.sourceRow * width;
    if (type != FLOAT32 || job.skip != 0 || job.addend != 0) {
      readRow(x, type, scratch, size);
      x = scratch;
    }
    if (job.skip != 0) addRow(x, job.skip + row * job.skipRow * width, type, size, pieces);
    if (job.addend != 0) addRow(x, job.addend, type, size, pieces);
    let mean: f32 = centered || job.mean != 0 ? total(x, size, 0) / <f32>size : 0;
    if (centered) mean += total(x, size, mean) / <f32>size; // what rounding took from it
    const center = centered ? mean : 0;
    const square = squares(x, size, center);
    if (!(square < Infinity && square + <f32>size * job.epsilon > LEAST)) {
      normalizeExactly(job, row, centered);
      continue;
    }
    if (job.sum != 0) writeRow(x, job.sum + row * job.sumRow * width, type, size);
    const inverse: f32 = 1 / sqrt<f32>(square / <f32>size + job.epsilon);
    if (job.mean != 0) store<f32>(job.mean + ((<usize>row) << 2), mean);
    if (job.inverse != 0) store<f32>(job.inverse + ((<usize>row) << 2), inverse);
    const output = job.output + row * job.outputRow * width;
    if (type == FLOAT32) finishRow(x, output, job.scale, job.bias, size, center, inverse);
    else {
      for (let first = 0; first < size; first += PIECE) {
        const count = min(PIECE, size - first);
        const place = x + ((<usize>first) << 2);
        const scale = job.scale ? pieces : 0;
        const bias = job.bias ? pieces + PIECE * 4 : 0;
        if (scale) readRow(job.scale + first * width, type, scale, count);
        if (bias) readRow(job.bias + first * width, type, bias, count);
        finishRow(place, place, scale, bias, count, center, inverse);
        writeRow(place, output + first * width, type, count);
      }
    }
  }
}

/** x += a row of any type. */
function addRow(x: usize, addend: usize, type: i32, size: i32, pieces: usize): void {
  const width = widthOf(type);
  for (let first = 0; first < size; first += PIECE, x += PIECE * 4) {
    const count = min(PIECE, size - first);
    readRow(addend + first * width, type, pieces, count);
    let i: usize = 0;
    for (const end = ((<usize>count) >> 2) << 4; i < end; i += 16)
      v128.store(x + i, f32x4.add(v128.load(x + i), v128.load(pieces + i)));
    for (const end = (<usize>count) << 2; i < end; i += 4) store<f32>(x + i, load<f32>(x + i) + load<f32>(pieces + i));
  }
}

/** The sum of x - center. */
function total(x: usize, size: i32, center: f32): f32 {
  const middle = f32x4.splat(center);
  let a = zero(), b = a;
  let left = size;
  for (; left >= 8; left -= 8, x += 32) {
    a = f32x4.add(a, f32x4.sub(v128.load(x), middle));
    b = f32x4.add(b, f32x4.sub(v128.load(x, 16), middle));
  }
  let rest: f32 = 0;
  for (; left > 0; left--, x += 4) rest += load<f32>(x) - center;
  return sum(f32x4.add(a, b)) + rest;
}

/** The sum of (x - center)². */
function squares(x: usize, size: i32, center: f32): f32 {
  const middle = f32x4.splat(center);
  let a = zero(), b = a;
  let left = size;
  for (; left >= 8; left -= 8, x += 32) {
    const first = f32x4.sub(v128.load(x), middle);
    const second = f32x4.sub(v128.load(x, 16), middle);
    a = fma(first, first, a);
    b = fma(second, second, b);
  }
  let rest: f32 = 0;
  for (; left > 0; left--, x += 4) {
    const difference = load<f32>(x) - center;
    rest += difference * difference;
  }
  return sum(f32x4.add(a, b)) + rest;
}

/** The same of one row, whatever finite numbers it holds. Every operand is read at a place before that place is written. */
function normalizeExactly(job: Normalize, row: i32, centered: bool): void {
  const size = job.size;
  const type = job.type;
  const width = widthOf(type);
  let mean: f64 = 0;
  if (centered || job.mean != 0) for (let i = 0; i < size; i++) mean += added(job, row, i);
  mean /= <f64>size;
  const center = centered ? mean : 0;
  let square: f64 = 0;
  for (let i = 0; i < size; i++) {
    const difference = added(job, row, i) - center;
    square += difference * difference;
  }
  const inverse: f64 = 1 / sqrt<f64>(square / <f64>size + <f64>job.epsilon);
  for (let i = 0; i < size; i++) {
    const x = added(job, row, i);
    let y = (x - center) * inverse;
    if (job.scale != 0) y *= <f64>readOne(job.scale + i * width, type);
    if (job.bias != 0) y += <f64>readOne(job.bias + i * width, type);
    if (job.sum != 0) writeOne(job.sum + (row * job.sumRow + i) * width, type, <f32>x);
    writeOne(job.output + (row * job.outputRow + i) * width, type, <f32>y);
  }
  if (job.mean != 0) store<f32>(job.mean + ((<usize>row) << 2), <f32>mean);
  if (job.inverse != 0) store<f32>(job.inverse + ((<usize>row) << 2), <f32>inverse);
}

/** What is normalized at one place. */
function added(job: Normalize, row: i32, i: i32): f64 {
  const type = job.type;
  const width = widthOf(type);
  let x = <f64>readOne(job.source + (row * job.sourceRow + i) * width, type);
  if (job.skip != 0) x += <f64>readOne(job.skip + (row * job.skipRow + i) * width, type);
  if (job.addend != 0) x += <f64>readOne(job.addend + i * width, type);
  return x;
}

/** output = (x - center) · inverse · scale + bias; scale and bias may be absent. */
function finishRow(x: usize, output: usize, scale: usize, bias: usize, size: i32, center: f32, inverse: f32): void {
  const middle = f32x4.splat(center);
  const factor = f32x4.splat(inverse);
  let left = size;
  for (; left >= 4; left -= 4, x += 16, output += 16) {
    let y = f32x4.mul(f32x4.sub(v128.load(x), middle), factor);
    if (scale) {
      y = f32x4.mul(y, v128.load(scale));
      scale += 16;
    }
    if (bias) {
      y = f32x4.add(y, v128.load(bias));
      bias += 16;
    }
    v128.store(output, y);
  }
  for (; left > 0; left--, x += 4, output += 4) {
    let y = (load<f32>(x) - center) * inverse;
    if (scale) {
      y *= load<f32>(scale);
      scale += 4;
    }
    if (bias) {
      y += load<f32>(bias);
      bias += 4;
    }
    store<f32>(output, y);
  }
}
