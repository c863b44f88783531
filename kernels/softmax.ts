/**
 * Softmax of rows. float32 is computed as such; the 16-bit types are rounded after every step, as if each were stored, which is what
 * ONNX's definition in terms of other operators comes to.
 */
import { BFLOAT16, FLOAT16, FLOAT32 } from "./codes";
import { expNegative } from "./exponential";
import { fromFloat16, readRow, toBfloat16, toFloat16, widthOf, writeRow } from "./float-types";
import { shareStart } from "./share";
import { largest, sum, zero } from "./simd";

/** Softmax of rows. */
@unmanaged
export class SoftmaxRows {
  source: usize; // [rows, size]
  output: usize; // may be source
  type: i32; // elementCode of both
  rows: i32;
  size: i32;
  sourceRow: i32; // strides
  outputRow: i32;
}

/** Softmax of one part of the rows. */
export function softmaxRows(job: SoftmaxRows, part: i32, parts: i32, scratch: usize): void {
  const type = job.type;
  const size = job.size;
  const width = widthOf(type);
  const end = shareStart(job.rows, part + 1, parts);
  for (let row = shareStart(job.rows, part, parts); row < end; row++) {
    const source = job.source + row * job.sourceRow * width;
    const output = job.output + row * job.outputRow * width;
    if (type == FLOAT32) softmaxRow(source, output, size);
    else {
      readRow(source, type, scratch, size);
      steppedRow(scratch, type, size);
      writeRow(scratch, output, type, size);
    }
  }
}

/** The row as float32, in whole vectors. */
export function softmaxRowsScratch(job: SoftmaxRows): usize {
  return job.type == FLOAT32 ? 0 : ((<usize>job.size + 3) >> 2) << 4;
}

/** NaN is passed over: it comes back with the sum of the weights. */
function greatestOf(x: usize, size: i32): f32 {
  const vectors = (<usize>size >> 2) << 4;
  let top = f32x4.splat(-Infinity);
  for (let i: usize = 0; i < vectors; i += 16) top = f32x4.pmax(top, v128.load(x + i));
  let greatest = largest(top);
  for (let i = vectors; i < (<usize>size) << 2; i += 4) greatest = f32x4.extract_lane(f32x4.pmax(f32x4.splat(greatest), v128.load32_splat(x + i)), 0);
  return greatest;
}

/** e^(x - greatest) / their sum. */
function softmaxRow(x: usize, output: usize, size: i32): void {
  const vectors = (<usize>size >> 2) << 4;
  const bytes = (<usize>size) << 2;
  const origin = f32x4.splat(greatestOf(x, size));
  let added = zero();
  for (let i: usize = 0; i < vectors; i += 16) {
    const weight = expNegative(f32x4.sub(v128.load(x + i), origin));
    added = f32x4.add(added, weight);
    v128.store(output + i, weight);
  }
  let weights = sum(added);
  for (let i = vectors; i < bytes; i += 4) {
    const weight = f32x4.extract_lane(expNegative(f32x4.sub(f32x4.splat(load<f32>(x + i)), origin)), 0);
    weights += weight;
    store<f32>(output + i, weight);
  }
  const divisor = f32x4.splat(weights);
  for (let i: usize = 0; i < vectors; i += 16) v128.store(output + i, f32x4.div(v128.load(output + i), divisor));
  for (let i = vectors; i < bytes; i += 4) store<f32>(output + i, load<f32>(output + i) / weights);
}

/** What lanes become by being stored as a 16-bit type. */
// @ts-ignore: decorator
@inline
function rounded(x: v128, type: i32): v128 {
  return type == FLOAT16 ? fromFloat16(toFloat16(x)) : i32x4.shl(toBfloat16(x), 16);
}

/** The same in place on whole vectors, rounded at every step but the last, which is the caller's; lanes behind the row are scratch. */
function steppedRow(x: usize, type: i32, size: i32): void {
  const end = x + (((<usize>size + 3) >> 2) << 4);
  const origin = f32x4.splat(greatestOf(x, size));
  for (let p = x; p < end; p += 16)
    v128.store(p, rounded(expNegative(rounded(f32x4.sub(v128.load(p), origin), type)), type));
  const weights = type == BFLOAT16 ? sumInRuns(x, size) : sumExactly(x, size);
  const divisor = rounded(f32x4.splat(weights), type);
  for (let p = x; p < end; p += 16) v128.store(p, f32x4.div(v128.load(p), divisor));
}

function sumExactly(x: usize, size: i32): f32 {
  let total: f64 = 0;
  for (const end = x + ((<usize>size) << 2); x < end; x += 4) total += <f64>load<f32>(x);
  return <f32>total;
}

/** bfloat16 are added one by one in bfloat16 in runs of eight, which are joined exactly: longer runs would stop growing. */
function sumInRuns(x: usize, size: i32): f32 {
  let total: f64 = 0;
  let run: f32 = 0;
  for (let i = 0; i < size; i++, x += 4) {
    if ((i & 7) == 0) {
      total += <f64>run;
      run = 0;
    }
    const bits = reinterpret<u32>(run + load<f32>(x));
    run = reinterpret<f32>((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000);
  }
  return <f32>(total + <f64>run);
}
