/**
 * Caches whose rows are integers of 8 or 4 bits, with one scale for all or one a channel, and caches as short as a window: the write of a step's rows.
 * Integers of 4 bits have 8 added and lie two to a byte, the first one low.
 */
import { readRow, widthOf } from "./float-types";
import { shareStart } from "./share";

/** Rows of floats into a cache of integers: value / scale to the nearest even. */
@unmanaged
export class QuantizeHeads {
  source: usize; // [batch, heads, rows, size]
  target: usize; // [batch, heads, capacity, bytes of a row]
  starts: usize; // int64[batch], optional: the row that the first one becomes
  scales: usize; // float32
  type: i32; // elementCode of source
  bits: i32; // 8 or 4
  batch: i32;
  heads: i32;
  rows: i32;
  size: i32;
  sourceSample: i32; // strides
  sourceHead: i32;
  sourceRow: i32;
  targetSample: i32; // strides, in bytes
  targetHead: i32;
  targetRow: i32;
  scaleHead: i32; // strides; 0: one scale for all
  scaleStep: i32;
}

/** Quantizes rows; parts share the samples' heads. */
export function quantizeHeads(job: QuantizeHeads, part: i32, parts: i32, scratch: usize): void {
  const size = job.size, heads = job.heads;
  const width = widthOf(job.type);
  const tasks = job.batch * heads;
  const end = shareStart(tasks, part + 1, parts);
  const row = scratch + ((<usize>size) << 2);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const sample = task / heads, head = task % heads;
    const first = job.starts ? <i32>load<i64>(job.starts + ((<usize>sample) << 3)) : 0;
    let source = job.source + (sample * job.sourceSample + head * job.sourceHead) * width;
    let target = job.target + sample * job.targetSample + head * job.targetHead + first * job.targetRow;
    // What values are multiplied by, a scale of 0 counting as 1.
    for (let i = 0; i < size; i++) {
      const scale = load<f32>(job.scales + ((<usize>(head * job.scaleHead + i * job.scaleStep)) << 2));
      store<f32>(scratch + ((<usize>i) << 2), scale == 0 ? 1 : 1 / scale);
    }
    for (let left = job.rows; left > 0; left--, source += job.sourceRow * width, target += job.targetRow) {
      readRow(source, job.type, row, size);
      if (job.bits == 8) for (let i = 0; i < size; i++) store<i8>(target + i, <i8>levelOf(scratch, row, i, size, 128));
      else for (let i = 0; i < size; i += 2) {
        store<u8>(target + (i >> 1), <u8>(levelOf(scratch, row, i, size, 8) + 8 + ((levelOf(scratch, row, i + 1, size, 8) + 8) << 4)));
      }
    }
  }
}

/** Two rows as float32. */
export function quantizeHeadsScratch(job: QuantizeHeads): usize {
  return (<usize>job.size) << 3;
}

/** An element as an integer from -most on, below `most`; what is no number, and what lies behind the last, is 0. */
function levelOf(inverses: usize, row: usize, i: i32, size: i32, most: i32): i32 {
  if (i >= size) return 0;
  const at = (<usize>i) << 2;
  const value = nearest<f32>(load<f32>(row + at) * load<f32>(inverses + at));
  return value == value ? <i32>max<f32>(<f32>-most, min<f32>(<f32>(most - 1), value)) : 0;
}

/**
 * A step of caches as short as a window, whose rows stand at the front: behind them come the fresh ones, and where there is no room for those, what lies
 * before the window goes. Bytes only.
 */
@unmanaged
export class SlideHeads {
  fresh: usize; // [batch, heads, rows, rowBytes]
  cache: usize; // [batch, heads, capacity, rowBytes]
  all: usize; // [batch, heads, capacity + rows, rowBytes], optional: every row of the step, old and fresh
  lengths: usize; // int64[batch]: tokens after the step
  counts: usize; // int64[batch], written: rows of `all`, or of the cache where there is none
  batch: i32;
  heads: i32;
  rows: i32;
  capacity: i32;
  window: i32;
  rowBytes: i32;
  writes: i32; // 0: the cache stays as it is, and there is `all`
  freshSample: i32; // strides, in bytes
  freshHead: i32;
  freshRow: i32;
  cacheSample: i32;
  cacheHead: i32;
  cacheRow: i32;
}

/** Rows that a cache holds after `tokens`. */
function heldRows(tokens: i32, capacity: i32, window: i32): i32 {
  if (tokens <= capacity) return tokens;
  const gap = capacity - window + 1;
  return tokens - gap * ((tokens - capacity + gap - 1) / gap);
}

/** Parts share the samples' heads. */
export function slideHeads(job: SlideHeads, part: i32, parts: i32, scratch: usize): void {
  const heads = job.heads, rows = job.rows, bytes = job.rowBytes;
  const tasks = job.batch * heads;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const sample = task / heads, head = task % heads;
    const tokens = <i32>load<i64>(job.lengths + ((<usize>sample) << 3));
    const held = heldRows(tokens - rows, job.capacity, job.window);
    const kept = heldRows(tokens, job.capacity, job.window);
    const fresh = job.fresh + sample * job.freshSample + head * job.freshHead;
    const cache = job.cache + sample * job.cacheSample + head * job.cacheHead;
    if (head == 0) store<i64>(job.counts + ((<usize>sample) << 3), <i64>(job.all ? held + rows : kept));
    if (job.all) {
      const all = job.all + <usize>task * (job.capacity + rows) * bytes;
      moveRows(all, bytes, cache, job.cacheRow, held, bytes);
      moveRows(all + <usize>held * bytes, bytes, fresh, job.freshRow, rows, bytes);
    }
    if (!job.writes) continue;
    const gone = held + rows - kept;
    const unseen = max(0, gone - held); // fresh rows that go at once
    if (gone > 0 && held > gone) moveRows(cache, job.cacheRow, cache + <usize>gone * job.cacheRow, job.cacheRow, held - gone, bytes);
    moveRows(cache + <usize>(held + unseen - gone) * job.cacheRow, job.cacheRow, fresh + <usize>unseen * job.freshRow, job.freshRow, rows - unseen, bytes);
  }
}

/** Copies rows, the first one first: they may move down within a cache. */
function moveRows(target: usize, targetRow: i32, source: usize, sourceRow: i32, rows: i32, bytes: i32): void {
  if (targetRow == bytes && sourceRow == bytes) {
    memory.copy(target, source, <usize>rows * bytes);
    return;
  }
  for (; rows > 0; rows--, target += targetRow, source += sourceRow) memory.copy(target, source, bytes);
}
