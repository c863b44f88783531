/** Moving bytes: rows into a cache, and any strided copy. */
import { shareStart } from "./share";
import { copyTransposed, isTransposition } from "./transpose";

/** TensorScatter: rows of `source` into the cache `target`, from `indices[sample]` on, around its end when circular. */
@unmanaged
export class ScatterRows {
  source: usize; // [batch, outer, length, row]
  target: usize; // [batch, outer, capacity, row]
  indices: usize; // int64[batch], optional: 0 for every sample
  batch: i32;
  outer: i32; // product of the dimensions between the batch and the sequence axis
  length: i32;
  capacity: i32;
  rowBytes: i32;
  sourceSample: i32; // strides, in bytes
  sourceOuter: i32;
  sourceRow: i32;
  targetSample: i32;
  targetOuter: i32;
  targetRow: i32;
}

/** Any strided copy of up to 5 dimensions: transposes, slices, concatenations, expansions. */
@unmanaged
export class CopyStrided {
  source: usize;
  target: usize;
  width: i32; // bytes that lie together on both sides: an element, or a whole row
  size0: i32; // outermost; 1 for dimensions that are not there
  size1: i32;
  size2: i32;
  size3: i32;
  size4: i32;
  source0: i32; // strides, in bytes; 0 repeats
  source1: i32;
  source2: i32;
  source3: i32;
  source4: i32;
  target0: i32;
  target1: i32;
  target2: i32;
  target3: i32;
  target4: i32;
}

/** TensorScatter; parts share the samples' rows of heads. */
export function scatterRows(job: ScatterRows, part: i32, parts: i32, scratch: usize): void {
  if (job.length == 0) return;
  const outer = job.outer;
  const capacity = job.capacity;
  const tasks = job.batch * outer;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const sample = task / outer;
    const index = job.indices ? <i32>(load<i64>(job.indices + ((<usize>sample) << 3)) % capacity) : 0;
    const before = min(job.length, capacity - index); // rows that come before the cache's end
    const source = job.source + sample * job.sourceSample + (task % outer) * job.sourceOuter;
    const target = job.target + sample * job.targetSample + (task % outer) * job.targetOuter;
    copyRows(job, source, target + index * job.targetRow, before);
    copyRows(job, source + before * job.sourceRow, target, job.length - before);
  }
}

function copyRows(job: ScatterRows, source: usize, target: usize, rows: i32): void {
  const bytes = job.rowBytes;
  if (rows == 1 || (job.sourceRow == bytes && job.targetRow == bytes)) {
    memory.copy(target, source, <usize>rows * bytes);
    return;
  }
  for (; rows > 0; rows--, source += job.sourceRow, target += job.targetRow) memory.copy(target, source, bytes);
}

/** A copy of up to 5 strided dimensions; parts share the four outer ones. */
export function copyStrided(job: CopyStrided, part: i32, parts: i32, scratch: usize): void {
  if (isTransposition(job)) return copyTransposed(job, part, parts);
  const size1 = job.size1;
  const size2 = job.size2;
  const size3 = job.size3;
  const tasks = job.size0 * size1 * size2 * size3;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const i3 = task % size3;
    const i2 = (task / size3) % size2;
    const i1 = (task / size3 / size2) % size1;
    const i0 = task / size3 / size2 / size1;
    const source = job.source + i0 * job.source0 + i1 * job.source1 + i2 * job.source2 + i3 * job.source3;
    const target = job.target + i0 * job.target0 + i1 * job.target1 + i2 * job.target2 + i3 * job.target3;
    copyLine(source, target, job.size4, job.source4, job.target4, job.width);
  }
}

function copyLine(source: usize, target: usize, count: i32, sourceStep: i32, targetStep: i32, width: i32): void {
  if (sourceStep == width && targetStep == width) {
    memory.copy(target, source, <usize>count * width);
  } else if (width == 4) {
    for (; count > 0; count--, source += sourceStep, target += targetStep) store<u32>(target, load<u32>(source));
  } else if (width == 2) {
    for (; count > 0; count--, source += sourceStep, target += targetStep) store<u16>(target, load<u16>(source));
  } else if (width == 1) {
    for (; count > 0; count--, source += sourceStep, target += targetStep) store<u8>(target, load<u8>(source));
  } else if (width == 8) {
    for (; count > 0; count--, source += sourceStep, target += targetStep) store<u64>(target, load<u64>(source));
  } else {
    for (; count > 0; count--, source += sourceStep, target += targetStep) memory.copy(target, source, width);
  }
}
