/** Strided copies of four-byte elements that exchange rows and columns: in blocks, so that whole cache lines are read. */
import { CopyStrided } from "./copy";
import { shareStart } from "./share";

/** Rows of the target in a block: the elements of a cache line. */
const BLOCK: i32 = 16;

/** True if the elements that lie together in the source are the target's rows, and both sides are worth it. */
export function isTransposition(job: CopyStrided): bool {
  return job.width == 4 && job.target4 == 4 && job.source3 == 4 && job.size3 >= 4 && job.size4 >= 4;
}

/** Copies one part of the blocks. */
export function copyTransposed(job: CopyStrided, part: i32, parts: i32): void {
  const size1 = job.size1;
  const size2 = job.size2;
  const blocks = (job.size3 + BLOCK - 1) / BLOCK;
  const tasks = job.size0 * size1 * size2 * blocks;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const first = (task % blocks) * BLOCK;
    const i2 = (task / blocks) % size2;
    const i1 = (task / blocks / size2) % size1;
    const i0 = task / blocks / size2 / size1;
    const source = job.source + i0 * job.source0 + i1 * job.source1 + i2 * job.source2 + (first << 2);
    const target = job.target + i0 * job.target0 + i1 * job.target1 + i2 * job.target2 + first * job.target3;
    copyBlock(source, target, min(BLOCK, job.size3 - first), job.size4, job.source4, job.target3);
  }
}

/** `rows` rows of `columns` elements at the target; a column at the source is a run, the next one is `step` bytes on. */
function copyBlock(source: usize, target: usize, rows: i32, columns: i32, step: i32, rowStep: i32): void {
  const whole = rows & ~3;
  let left = columns;
  for (; left >= 4; left -= 4, source += step << 2, target += 16) {
    for (let row = 0; row < whole; row += 4)
      copySquare(source + (row << 2), target + row * rowStep, step, rowStep);
    for (let row = whole; row < rows; row++) copyWords(source + (row << 2), target + row * rowStep, 4, step);
  }
  for (let row = 0; row < rows; row++) copyWords(source + (row << 2), target + row * rowStep, left, step);
}

/** Four by four elements. */
// @ts-ignore: decorator
@inline
function copySquare(source: usize, target: usize, step: i32, rowStep: i32): void {
  const a = v128.load(source);
  const b = v128.load(source + step);
  const c = v128.load(source + 2 * step);
  const d = v128.load(source + 3 * step);
  const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5);
  const cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
  const abHigh = v128.shuffle<i32>(a, b, 2, 6, 3, 7);
  const cdHigh = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
  v128.store(target, v128.shuffle<i64>(ab, cd, 0, 2));
  v128.store(target + rowStep, v128.shuffle<i64>(ab, cd, 1, 3));
  v128.store(target + 2 * rowStep, v128.shuffle<i64>(abHigh, cdHigh, 0, 2));
  v128.store(target + 3 * rowStep, v128.shuffle<i64>(abHigh, cdHigh, 1, 3));
}

function copyWords(source: usize, target: usize, count: i32, step: i32): void {
  for (; count > 0; count--, source += step, target += 4) store<u32>(target, load<u32>(source));
}
