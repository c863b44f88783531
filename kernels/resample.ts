/** Resampling along one axis: every row of the result is a sum of a few rows of the input. Resize and Upsample. */
import { shareStart } from "./share";

/** Rows of float32 that become others. */
@unmanaged
export class Resample {
  source: usize; // [outer, from, inner]
  target: usize; // [outer, to, inner]
  taps: usize; // [to, count]: the row as int32, its weight as float32
  count: i32;
  outer: i32;
  from: i32;
  to: i32;
  inner: i32;
}

/** Adds up the taps of each row; parts share the rows. */
export function resample(job: Resample, part: i32, parts: i32, scratch: usize): void {
  const to = job.to;
  const rowBytes = (<usize>job.inner) << 2;
  const tapBytes = (<usize>job.count) << 3;
  const end = shareStart(job.outer * to, part + 1, parts);
  for (let task = shareStart(job.outer * to, part, parts); task < end;) {
    const line = task / to;
    const rows = min((line + 1) * to, end) - task;
    const source = job.source + <usize>(line * job.from) * rowBytes;
    const taps = job.taps + <usize>(task - line * to) * tapBytes;
    const target = job.target + <usize>task * rowBytes;
    if (rowBytes == 4) resampleLine(source, target, taps, rows, tapBytes);
    else
      for (let row: usize = 0; row < <usize>rows; row++)
        resampleRow(source, target + row * rowBytes, taps + row * tapBytes, rowBytes, tapBytes);
    task += rows;
  }
}

/** Rows of one element. */
function resampleLine(source: usize, target: usize, taps: usize, rows: i32, tapBytes: usize): void {
  const end = target + ((<usize>rows) << 2);
  if (tapBytes == 16) {
    for (; target < end; target += 4, taps += 16)
      store<f32>(
        target,
        load<f32>(source + ((<usize>load<i32>(taps)) << 2)) * load<f32>(taps, 4) +
          load<f32>(source + ((<usize>load<i32>(taps, 8)) << 2)) * load<f32>(taps, 12),
      );
    return;
  }
  for (; target < end; target += 4) {
    let sum: f32 = 0;
    for (const last = taps + tapBytes; taps < last; taps += 8)
      sum += load<f32>(source + ((<usize>load<i32>(taps)) << 2)) * load<f32>(taps, 4);
    store<f32>(target, sum);
  }
}

/** One row of several elements. */
function resampleRow(source: usize, target: usize, taps: usize, rowBytes: usize, tapBytes: usize): void {
  let i: usize = 0;
  for (; i + 16 <= rowBytes; i += 16) {
    let sum = f32x4.splat(0);
    for (let tap: usize = 0; tap < tapBytes; tap += 8) {
      const row = source + <usize>load<i32>(taps + tap) * rowBytes;
      sum = f32x4.add(sum, f32x4.mul(v128.load(row + i), f32x4.splat(load<f32>(taps + tap, 4))));
    }
    v128.store(target + i, sum);
  }
  for (; i < rowBytes; i += 4) {
    let sum: f32 = 0;
    for (let tap: usize = 0; tap < tapBytes; tap += 8)
      sum += load<f32>(source + <usize>load<i32>(taps + tap) * rowBytes + i) * load<f32>(taps + tap, 4);
    store<f32>(target + i, sum);
  }
}
