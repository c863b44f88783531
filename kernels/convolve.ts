/** Convolutions over two spatial axes, in float32: eight places of a row of the output for four maps at a time, in registers. Conv, FusedConv. */
import { shareStart } from "./share";
import { fma } from "./simd";

/** One convolution. What lies outside of the input counts as zero. */
@unmanaged
export class Convolution {
  source: usize; // [samples, groups · channels, height, width]
  weights: usize; // [groups · maps, channels, kernelHeight, kernelWidth]
  bias: usize; // [groups · maps], optional
  target: usize; // [samples, groups · maps, outHeight, outWidth]
  samples: i32;
  groups: i32;
  channels: i32; // of a group
  maps: i32; // of a group
  height: i32;
  width: i32;
  outHeight: i32;
  outWidth: i32;
  kernelHeight: i32;
  kernelWidth: i32;
  strideHeight: i32;
  strideWidth: i32;
  dilationHeight: i32;
  dilationWidth: i32;
  padHeight: i32;
  padWidth: i32;
  slope: f32; // what lies below zero is multiplied by this, 1 for nothing
  least: f32; // and then held within these
  most: f32;
}

/** Computes every row of the output; parts share rows of four maps. */
export function convolve(job: Convolution, part: i32, parts: i32, scratch: usize): void {
  const blocks = (job.maps + 3) >> 2;
  const perSample = job.groups * blocks * job.outHeight;
  const end = shareStart(job.samples * perSample, part + 1, parts);
  for (let task = shareStart(job.samples * perSample, part, parts); task < end; task++) {
    const sample = task / perSample;
    const rest = task - sample * perSample;
    const block = rest / job.outHeight;
    const row = rest - block * job.outHeight;
    const group = block / blocks;
    const map = (block - group * blocks) << 2;
    convolveRow(job, sample, group, map, row);
  }
}

// @ts-ignore: decorator
@inline
function four(at: usize, step: usize): v128 {
  if (step == 4) return v128.load(at);
  let x = v128.load32_splat(at);
  x = v128.load_lane<f32>(at + step, x, 1);
  x = v128.load_lane<f32>(at + 2 * step, x, 2);
  return v128.load_lane<f32>(at + 3 * step, x, 3);
}

/** A row of up to four maps. */
function convolveRow(job: Convolution, sample: i32, group: i32, map: i32, row: i32): void {
  const count = min(job.maps - map, 4);
  const width = job.width;
  const top = row * job.strideHeight - job.padHeight;
  // The taps that meet the input, from above to below.
  const first = top >= 0 ? 0 : (-top + job.dilationHeight - 1) / job.dilationHeight;
  const last = min(job.kernelHeight, top >= job.height ? 0 : (job.height - 1 - top) / job.dilationHeight + 1);
  // The places whose taps all meet the input, from left to right.
  const reach = (job.kernelWidth - 1) * job.dilationWidth;
  const inner = min(job.outWidth, (job.padWidth + job.strideWidth - 1) / job.strideWidth);
  const room = width - 1 - reach + job.padWidth;
  const outer = max(inner, room < 0 ? 0 : min(job.outWidth, room / job.strideWidth + 1));
  const plane = (<usize>(job.height * width)) << 2;
  const source = job.source + <usize>((sample * job.groups + group) * job.channels) * plane;
  const kernelBytes = (<usize>(job.channels * job.kernelHeight * job.kernelWidth)) << 2;
  const index = group * job.maps + map;
  const weights = job.weights + <usize>index * kernelBytes;
  const outPlane = (<usize>(job.outHeight * job.outWidth)) << 2;
  const target =
    job.target +
    <usize>(sample * job.groups * job.maps + index) * outPlane +
    ((<usize>(row * job.outWidth)) << 2);
  let column = 0;
  for (; column < inner; column++) onePlace(job, source, weights, target, index, count, top, first, last, column);
  if (count == 4)
    for (; column + 8 <= outer; column += 8) eightPlaces(job, source, weights, target, index, top, first, last, column);
  for (; column + 4 <= outer; column += 4)
    for (let each = 0; each < count; each++)
      fourOfOne(
        job,
        source,
        weights + <usize>each * kernelBytes,
        target + <usize>each * outPlane,
        index + each,
        top,
        first,
        last,
        column,
      );
  for (; column < job.outWidth; column++) onePlace(job, source, weights, target, index, count, top, first, last, column);
}

// @ts-ignore: decorator
@inline
function biasOf(job: Convolution, map: i32): f32 {
  return job.bias == 0 ? 0 : load<f32>(job.bias + ((<usize>map) << 2));
}

// @ts-ignore: decorator
@inline
function storeFour(job: Convolution, at: usize, x: v128): void {
  if (job.slope != 1) {
    const lower = f32x4.mul(x, f32x4.splat(job.slope));
    x = v128.bitselect(lower, x, f32x4.lt(x, f32x4.splat(0)));
  }
  v128.store(at, f32x4.min(f32x4.max(x, f32x4.splat(job.least)), f32x4.splat(job.most)));
}

/** Eight places of four maps, whose taps all lie within the rows. */
function eightPlaces(
  job: Convolution,
  source: usize,
  weights: usize,
  target: usize,
  map: i32,
  top: i32,
  first: i32,
  last: i32,
  column: i32,
): void {
  let a0 = f32x4.splat(biasOf(job, map));
  let b0 = f32x4.splat(biasOf(job, map + 1));
  let c0 = f32x4.splat(biasOf(job, map + 2));
  let d0 = f32x4.splat(biasOf(job, map + 3));
  let a1 = a0;
  let b1 = b0;
  let c1 = c0;
  let d1 = d0;
  const step = (<usize>job.strideWidth) << 2;
  const dilation = (<usize>job.dilationWidth) << 2;
  const rowBytes = (<usize>job.width) << 2;
  const plane = <usize>job.height * rowBytes;
  const taps = job.kernelHeight * job.kernelWidth;
  const next = (<usize>(job.channels * taps)) << 2;
  const left = (<usize>(column * job.strideWidth - job.padWidth)) << 2;
  for (let channel = 0; channel < job.channels; channel++) {
    for (let tall = first; tall < last; tall++) {
      let x = source + <usize>channel * plane + <usize>(top + tall * job.dilationHeight) * rowBytes + left;
      let w = weights + ((<usize>(channel * taps + tall * job.kernelWidth)) << 2);
      for (let wide = 0; wide < job.kernelWidth; wide++) {
        const x0 = four(x, step);
        const x1 = four(x + 4 * step, step);
        const wa = v128.load32_splat(w);
        const wb = v128.load32_splat(w + next);
        const wc = v128.load32_splat(w + 2 * next);
        const wd = v128.load32_splat(w + 3 * next);
        a0 = fma(x0, wa, a0);
        a1 = fma(x1, wa, a1);
        b0 = fma(x0, wb, b0);
        b1 = fma(x1, wb, b1);
        c0 = fma(x0, wc, c0);
        c1 = fma(x1, wc, c1);
        d0 = fma(x0, wd, d0);
        d1 = fma(x1, wd, d1);
        x += dilation;
        w += 4;
      }
    }
  }
  const outPlane = (<usize>(job.outHeight * job.outWidth)) << 2;
  const at = target + ((<usize>column) << 2);
  storeFour(job, at, a0);
  storeFour(job, at + 16, a1);
  storeFour(job, at + outPlane, b0);
  storeFour(job, at + outPlane + 16, b1);
  storeFour(job, at + 2 * outPlane, c0);
  storeFour(job, at + 2 * outPlane + 16, c1);
  storeFour(job, at + 3 * outPlane, d0);
  storeFour(job, at + 3 * outPlane + 16, d1);
}

/** Four places of one map. */
function fourOfOne(
  job: Convolution,
  source: usize,
  weights: usize,
  target: usize,
  map: i32,
  top: i32,
  first: i32,
  last: i32,
  column: i32,
): void {
  let sum = f32x4.splat(biasOf(job, map));
  const step = (<usize>job.strideWidth) << 2;
  const dilation = (<usize>job.dilationWidth) << 2;
  const rowBytes = (<usize>job.width) << 2;
  const plane = <usize>job.height * rowBytes;
  const taps = job.kernelHeight * job.kernelWidth;
  const left = (<usize>(column * job.strideWidth - job.padWidth)) << 2;
  for (let channel = 0; channel < job.channels; channel++) {
    for (let tall = first; tall < last; tall++) {
      let x = source + <usize>channel * plane + <usize>(top + tall * job.dilationHeight) * rowBytes + left;
      let w = weights + ((<usize>(channel * taps + tall * job.kernelWidth)) << 2);
      for (let wide = 0; wide < job.kernelWidth; wide++) {
        sum = fma(four(x, step), v128.load32_splat(w), sum);
        x += dilation;
        w += 4;
      }
    }
  }
  storeFour(job, target + ((<usize>column) << 2), sum);
}

/** One place of up to four maps, with taps that may lie beside the rows. */
function onePlace(
  job: Convolution,
  source: usize,
  weights: usize,
  target: usize,
  map: i32,
  count: i32,
  top: i32,
  first: i32,
  last: i32,
  column: i32,
): void {
  const rowBytes = (<usize>job.width) << 2;
  const plane = <usize>job.height * rowBytes;
  const taps = job.kernelHeight * job.kernelWidth;
  const kernelBytes = (<usize>(job.channels * taps)) << 2;
  const outPlane = (<usize>(job.outHeight * job.outWidth)) << 2;
  const left = column * job.strideWidth - job.padWidth;
  const width = <u32>job.width;
  for (let each = 0; each < count; each++) {
    const kernel = weights + <usize>each * kernelBytes;
    let sum = biasOf(job, map + each);
    for (let channel = 0; channel < job.channels; channel++) {
      for (let tall = first; tall < last; tall++) {
        const x = source + <usize>channel * plane + <usize>(top + tall * job.dilationHeight) * rowBytes;
        const w = kernel + ((<usize>(channel * taps + tall * job.kernelWidth)) << 2);
        for (let wide = 0; wide < job.kernelWidth; wide++) {
          const at = left + wide * job.dilationWidth;
          if (<u32>at < width) sum += load<f32>(x + ((<usize>at) << 2)) * load<f32>(w + ((<usize>wide) << 2));
        }
      }
    }
    if (sum < 0) sum *= job.slope;
    store<f32>(target + <usize>each * outPlane + ((<usize>column) << 2), min(max(sum, job.least), job.most));
  }
}
