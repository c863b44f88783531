/** Gathering and scattering of bytes: runs that tuples of indices point at, single elements along an axis; and triangles of matrices. */
import { shareStart } from "./share";

/** Runs of bytes that tuples of indices point at: Gather along any axis, GatherND. Indices are in range, negative ones from the end. */
@unmanaged
export class GatherRuns {
  data: usize;
  indices: usize; // [batch, rows, depth]
  output: usize; // [batch, rows, width]
  indexBytes: i32; // 4 or 8
  width: i32; // bytes of a run
  batch: i32;
  rows: i32;
  depth: i32;
  layout: usize; // the sizes that indices point into, and their strides in bytes
  dataSample: i32; // bytes
  indexSample: i32; // tuples; 0 when all samples share them
}

/** One element for each index: GatherElements. */
@unmanaged
export class GatherAlong {
  data: usize;
  indices: usize;
  output: usize;
  indexBytes: i32; // 4 or 8
  width: i32; // bytes of an element
  rank: i32;
  layout: usize; // the sizes of indices and output, and the strides of data in bytes, 0 for the axis
  rows: i32; // product of all sizes but the last
  axisSize: i32;
  axisStride: i32; // bytes
}

/** Trilu: matrices with a triangle of zeros. */
@unmanaged
export class Triangle {
  source: usize; // [lines, columns]
  target: usize; // may be source
  diagonal: usize; // int64, optional: 0
  width: i32; // bytes of an element
  lines: i32;
  rows: i32; // lines of a matrix
  columns: i32;
  upper: i32; // 1: what lies below the diagonal is zeroed; 0: above it
}

// @ts-ignore: decorator
@inline
function indexAt(p: usize, bytes: i32, size: i32): i32 {
  const index = bytes == 8 ? <i32>load<i64>(p) : load<i32>(p);
  return index < 0 ? index + size : index;
}

// @ts-ignore: decorator
@inline
function copyRun(target: usize, source: usize, width: i32): void {
  if (width == 1) store<u8>(target, load<u8>(source));
  else if (width == 4) store<u32>(target, load<u32>(source));
  else if (width == 8) store<u64>(target, load<u64>(source));
  else if (width == 2) store<u16>(target, load<u16>(source));
  else memory.copy(target, source, width);
}

/** Copies the run that each tuple of indices points at; parts share the tuples. */
export function gatherRuns(job: GatherRuns, part: i32, parts: i32, scratch: usize): void {
  moveRuns(job, part, parts, false);
}

/** Copies a run to where each tuple of indices points, one after another. One part does it. */
export function scatterRuns(job: GatherRuns, part: i32, parts: i32, scratch: usize): void {
  if (part == 0) moveRuns(job, 0, 1, true);
}

function moveRuns(job: GatherRuns, part: i32, parts: i32, back: bool): void {
  const depth = job.depth;
  const bytes = job.indexBytes;
  const rows = job.rows;
  const strides = job.layout + ((<usize>depth) << 2);
  const end = shareStart(job.batch * rows, part + 1, parts);
  for (let task = shareStart(job.batch * rows, part, parts); task < end; task++) {
    const sample = task / rows;
    let source = job.data + sample * job.dataSample;
    let index = job.indices + <usize>(sample * job.indexSample + task % rows) * depth * bytes;
    for (let at: usize = 0; at < (<usize>depth) << 2; at += 4, index += bytes) {
      source += indexAt(index, bytes, load<i32>(job.layout + at)) * load<i32>(strides + at);
    }
    const other = job.output + <usize>task * job.width;
    copyRun(back ? source : other, back ? other : source, job.width);
  }
}

/** Copies for each index the element at its own place, but for the axis; parts share the rows. */
export function gatherAlong(job: GatherAlong, part: i32, parts: i32, scratch: usize): void {
  moveAlong(job, part, parts, false);
}

/** Copies an element to each index's place, one after another. One part does it. */
export function scatterAlong(job: GatherAlong, part: i32, parts: i32, scratch: usize): void {
  if (part == 0) moveAlong(job, 0, 1, true);
}

function moveAlong(job: GatherAlong, part: i32, parts: i32, back: bool): void {
  const last = job.rank - 1;
  const columns = load<i32>(job.layout + ((<usize>last) << 2));
  const strides = job.layout + ((<usize>job.rank) << 2);
  const step = load<i32>(strides + ((<usize>last) << 2));
  const end = shareStart(job.rows, part + 1, parts);
  for (let row = shareStart(job.rows, part, parts); row < end; row++) {
    let source = job.data;
    let rest = row;
    for (let axis = last - 1; axis >= 0; axis--) {
      const size = load<i32>(job.layout + ((<usize>axis) << 2));
      source += (rest % size) * load<i32>(strides + ((<usize>axis) << 2));
      rest /= size;
    }
    let index = job.indices + <usize>row * columns * job.indexBytes;
    let target = job.output + <usize>row * columns * job.width;
    for (let column = 0; column < columns; column++, index += job.indexBytes, target += job.width) {
      const place = source + column * step + indexAt(index, job.indexBytes, job.axisSize) * job.axisStride;
      copyRun(back ? place : target, back ? target : place, job.width);
    }
  }
}

/** Copies what lies on and above the diagonal, or on and below it, and zeroes the rest; parts share the rows. */
export function triangle(job: Triangle, part: i32, parts: i32, scratch: usize): void {
  const columns = job.columns;
  const end = shareStart(job.lines, part + 1, parts);
  const diagonal = job.diagonal ? load<i64>(job.diagonal) : 0;
  for (let line = shareStart(job.lines, part, parts); line < end; line++) {
    const source = job.source + <usize>line * columns * job.width;
    const target = job.target + <usize>line * columns * job.width;
    const first = <i64>(line % job.rows) + (job.upper ? 0 : 1);
    // Columns from here on lie above the diagonal.
    const above = <usize>(diagonal < -first ? 0 : min(first + min(diagonal, <i64>columns), <i64>columns)) * job.width;
    const whole = <usize>columns * job.width;
    const from: usize = job.upper ? above : 0;
    const to = job.upper ? whole : above;
    if (source != target) memory.copy(target + from, source + from, to - from);
    memory.fill(target, 0, from);
    memory.fill(target + to, 0, whole - to);
  }
}
