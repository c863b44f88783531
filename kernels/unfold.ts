/** Windows of an input laid out as the columns of a matrix, so that a convolution is a product; and what is done to the product's rows. */
import { shareStart } from "./share";

/** The columns for `count` places of the output from `first` on. */
@unmanaged
export class Unfold {
  source: usize; // [channels, height, width]
  target: usize; // [channels · kernelHeight · kernelWidth, count]
  channels: i32;
  height: i32;
  width: i32;
  outWidth: i32;
  kernelHeight: i32;
  kernelWidth: i32;
  strideHeight: i32;
  strideWidth: i32;
  dilationHeight: i32;
  dilationWidth: i32;
  padHeight: i32;
  padWidth: i32;
  first: i32;
  count: i32;
}

/** Copies what each tap of the kernel meets, zero beside the input; parts share the taps. */
export function unfold(job: Unfold, part: i32, parts: i32, scratch: usize): void {
  const wide = job.kernelWidth;
  const taps = job.kernelHeight * wide;
  const end = shareStart(job.channels * taps, part + 1, parts);
  for (let task = shareStart(job.channels * taps, part, parts); task < end; task++) {
    const channel = task / taps;
    const tall = (task - channel * taps) / wide;
    const across = task - channel * taps - tall * wide;
    const source = job.source + ((<usize>(channel * job.height * job.width)) << 2);
    let target = job.target + ((<usize>task * job.count) << 2);
    for (let place = job.first, last = job.first + job.count; place < last;) {
      const row = place / job.outWidth;
      const column = place - row * job.outWidth;
      const count = min(job.outWidth - column, last - place);
      const y = row * job.strideHeight + tall * job.dilationHeight - job.padHeight;
      const x = column * job.strideWidth + across * job.dilationWidth - job.padWidth;
      if (<u32>y < <u32>job.height) unfoldRow(source + ((<usize>(y * job.width)) << 2), target, x, count, job.strideWidth, job.width);
      else clear(target, count);
      target += (<usize>count) << 2;
      place += count;
    }
  }
}

/** `count` elements of a row, `stride` apart from x on; zero where there are none. Rows are short: a loop is quicker than memory.copy. */
function unfoldRow(source: usize, target: usize, x: i32, count: i32, stride: i32, width: i32): void {
  const before = min(count, x >= 0 ? 0 : (-x + stride - 1) / stride);
  const within = max(before, min(count, x >= width ? 0 : (width - 1 - x) / stride + 1));
  clear(target, before);
  let to = target + ((<usize>before) << 2);
  const end = target + ((<usize>within) << 2);
  const step = (<usize>stride) << 2;
  let from = source + ((<usize>(x + before * stride)) << 2);
  if (stride == 1) for (; to + 16 <= end; to += 16, from += 16) v128.store(to, v128.load(from));
  for (; to < end; to += 4, from += step) store<f32>(to, load<f32>(from));
  clear(to, count - within);
}

function clear(at: usize, count: i32): void {
  const end = at + ((<usize>count) << 2);
  for (; at + 16 <= end; at += 16) v128.store(at, i32x4.splat(0));
  for (; at < end; at += 4) store<f32>(at, 0);
}

/** Rows that get a number of their own, and are held within bounds. */
@unmanaged
export class EndRows {
  target: usize; // [rows, columns]
  bias: usize; // [maps], by turns; optional
  rows: i32;
  columns: i32;
  maps: i32;
  slope: f32; // what lies below zero is multiplied by this, 1 for nothing
  least: f32; // and then held within these
  most: f32;
}

/** Ends every row; parts share the rows. */
export function endRows(job: EndRows, part: i32, parts: i32, scratch: usize): void {
  const bytes = (<usize>job.columns) << 2;
  const slope = f32x4.splat(job.slope);
  const least = f32x4.splat(job.least);
  const most = f32x4.splat(job.most);
  const end = shareStart(job.rows, part + 1, parts);
  for (let row = shareStart(job.rows, part, parts); row < end; row++) {
    const bias: f32 = job.bias == 0 ? 0 : load<f32>(job.bias + ((<usize>(row % job.maps)) << 2));
    const added = f32x4.splat(bias);
    let at = job.target + <usize>row * bytes;
    const last = at + bytes;
    for (; at + 16 <= last; at += 16) {
      const x = f32x4.add(v128.load(at), added);
      const y = v128.bitselect(f32x4.mul(x, slope), x, f32x4.lt(x, f32x4.splat(0)));
      v128.store(at, f32x4.min(f32x4.max(y, least), most));
    }
    for (; at < last; at += 4) {
      const x = load<f32>(at) + bias;
      store<f32>(at, min(max(x < 0 ? x * job.slope : x, job.least), job.most));
    }
  }
}
