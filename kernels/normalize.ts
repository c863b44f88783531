/** Rows brought to unit size: by the root of their mean square, with or without the mean taken off first. */
import { FLOAT32, readRow, widthOf, writeRow } from "./float-types";
import { Normalize } from "./jobs";
import { shareStart } from "./share";
import { fma, loadTail, sum, zero } from "./simd";

/** RMSNormalization of one part of the rows. */
export function rmsNormalize(at: usize, part: i32, parts: i32, scratch: usize): void {
  normalize(changetype<Normalize>(at), part, parts, scratch, false);
}

/** LayerNormalization of one part of the rows. */
export function layerNormalize(at: usize, part: i32, parts: i32, scratch: usize): void {
  normalize(changetype<Normalize>(at), part, parts, scratch, true);
}

/** Elements that are converted at a time. */
const PIECE: i32 = 256;

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
    if (job.sum != 0) writeRow(x, job.sum + row * job.sumRow * width, type, size);
    const mean = centered || job.mean != 0 ? total(x, size) / <f32>size : 0;
    const center = centered ? mean : 0;
    const inverse: f32 = 1 / sqrt<f32>(squares(x, size, center) / <f32>size + job.epsilon);
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

function total(x: usize, size: i32): f32 {
  let a = zero(), b = a;
  let left = size;
  for (; left >= 8; left -= 8, x += 32) {
    a = f32x4.add(a, v128.load(x));
    b = f32x4.add(b, v128.load(x, 16));
  }
  if (left >= 4) {
    a = f32x4.add(a, v128.load(x));
    x += 16;
    left -= 4;
  }
  if (left > 0) b = f32x4.add(b, loadTail<f32>(x, left));
  return sum(f32x4.add(a, b));
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
