/** Causal depthwise convolution: each channel over its past and its present, the end of both carried on. */
import { FLOAT32 } from "./codes";
import { sigmoid } from "./exponential";
import { readOne, readRow, widthOf, writeRow } from "./float-types";
import { shareStart } from "./share";
import { fma, sums, zero } from "./simd";

/** output[t] = activation(Σ weight[i] · x[t + i] + bias), where x is the past followed by the source. */
@unmanaged
export class CausalConvolution {
  source: usize; // [rows, length]
  weight: usize; // [channels, kernel]
  bias: usize; // [channels], optional
  past: usize; // [rows, kernel - 1], optional: zeros
  state: usize; // [rows, kernel - 1]: the last values; may be past
  output: usize; // [rows, length]
  type: i32; // elementCode of all
  rows: i32; // batch · channels
  channels: i32;
  length: i32;
  kernel: i32;
  silu: i32; // 1: the result times its sigmoid
}

/** Parts share the rows. */
export function causalConvolution(job: CausalConvolution, part: i32, parts: i32, scratch: usize): void {
  const type = job.type, length = job.length, kernel = job.kernel, carried = kernel - 1;
  const width = <usize>widthOf(type);
  const end = shareStart(job.rows, part + 1, parts);
  let row = shareStart(job.rows, part, parts);
  if (type == FLOAT32 && length == 1 && kernel == 4 && job.past && end - row > 4) row = oneOfFour(job, row, end);
  // Scratch: weights; the past and the source, with as much behind them as vectors read; results.
  const line = scratch + (((<usize>kernel + 3) >> 2) << 4);
  const results = line + (((<usize>(carried + length) + 7) >> 2) << 4);
  for (; row < end; row++) {
    const channel = row % job.channels;
    readRow(job.weight + <usize>channel * kernel * width, type, scratch, kernel);
    if (job.past) readRow(job.past + <usize>row * carried * width, type, line, carried);
    else memory.fill(line, 0, (<usize>carried) << 2);
    const source = line + ((<usize>carried) << 2);
    readRow(job.source + <usize>row * length * width, type, source, length);
    const bias = f32x4.splat(job.bias ? readOne(job.bias + <usize>channel * width, type) : 0);
    for (let t = 0; t < length; t += 4) {
      const x = line + ((<usize>t) << 2);
      let total = bias;
      for (let i: usize = 0; i < <usize>kernel << 2; i += 4) total = fma(v128.load_splat<f32>(scratch + i), v128.load(x + i), total);
      v128.store(results + ((<usize>t) << 2), total);
    }
    if (job.silu) activate(results, type, length);
    writeRow(results, job.output + <usize>row * length * width, type, length);
    if (carried) writeRow(line + ((<usize>length) << 2), job.state + <usize>row * carried * width, type, carried);
  }
}

export function causalConvolutionScratch(job: CausalConvolution): usize {
  return <usize>(job.kernel + 3 + (job.kernel + job.length + 7) + (job.length + 3)) * 4 + 16;
}

/** The activation sees what the convolution would store. */
function activate(results: usize, type: i32, length: i32): void {
  if (type != FLOAT32) {
    // Narrower results lie in the first half of what they become.
    writeRow(results, results, type, length);
    widen(results, type, length);
  }
  for (let t = 0; t < length; t += 4, results += 16) {
    const x = v128.load(results);
    v128.store(results, f32x4.mul(x, sigmoid(x)));
  }
}

/** A row of a narrower type to float32 at the same place, from its end on. */
function widen(at: usize, type: i32, length: i32): void {
  for (let t = length - 1; t >= 0; t--) store<f32>(at + ((<usize>t) << 2), readOne(at + ((<usize>t) << 1), type));
}

/** One value of each row, kernels of four, four rows at a time as far as there are more behind them. Returns the first row that is left. */
function oneOfFour(job: CausalConvolution, row: i32, end: i32): i32 {
  for (; row + 4 < end; row += 4) {
    const channel = row % job.channels;
    if (channel + 4 > job.channels) break;
    const past = job.past + <usize>row * 12, state = job.state + <usize>row * 12;
    const w = job.weight + ((<usize>channel) << 4);
    const source = job.source + ((<usize>row) << 2);
    // Three carried values and the new one; the fourth that is read with the three is the next row's.
    const a = v128.load_lane<f32>(source, v128.load(past), 3);
    const b = v128.load_lane<f32>(source, v128.load(past, 12), 3, 4);
    const c = v128.load_lane<f32>(source, v128.load(past, 24), 3, 8);
    const d = v128.load_lane<f32>(source, v128.load(past, 36), 3, 12);
    const bias = job.bias ? v128.load(job.bias + ((<usize>channel) << 2)) : zero();
    let total = sums(
      f32x4.mul(a, v128.load(w)), f32x4.mul(b, v128.load(w, 16)), f32x4.mul(c, v128.load(w, 32)), f32x4.mul(d, v128.load(w, 48)),
    );
    total = f32x4.add(total, bias);
    if (job.silu) total = f32x4.mul(total, sigmoid(total));
    v128.store(job.output + ((<usize>row) << 2), total);
    carry(state, a);
    carry(state + 12, b);
    carry(state + 24, c);
    carry(state + 36, d);
  }
  return row;
}

/** The last three lanes. */
// @ts-ignore: decorator
@inline
function carry(state: usize, x: v128): void {
  const moved = v128.shuffle<i32>(x, x, 1, 2, 3, 3);
  v128.store_lane<u64>(state, moved, 0);
  v128.store_lane<f32>(state, moved, 2, 8);
}
