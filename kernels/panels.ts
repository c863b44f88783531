/** Weights in panels of eight columns, [ceil(n / 8)][k][8]: packing them, and one row times a range of them. */
import { FLOAT32, widthOf } from "./float-types";
import { PackPanels } from "./jobs";
import { shareStart } from "./share";
import { fma, gain, load4, zero } from "./simd";

/** Packs a piece of the weights; parts share its panels. */
export function packPanels(at: usize, part: i32, parts: i32, scratch: usize): void {
  const job = changetype<PackPanels>(at);
  const width = widthOf(job.type);
  const firstPanel = job.nFrom >> 3;
  const panels = ((job.nTo + 7) >> 3) - firstPanel;
  const tasks = panels * job.batch;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const batch = task / panels;
    const panel = firstPanel + (task % panels);
    const columns = min(8, job.nTo - (panel << 3));
    let source = job.source + (batch * job.sourceBatch + ((panel << 3) - job.nFrom) * job.sourceN) * width;
    let target = job.target + (batch * job.targetBatch + ((panel * job.k + job.kFrom) << 3)) * width;
    for (let k = job.kFrom; k < job.kTo; k++, source += job.sourceK * width, target += width << 3) {
      if (columns == 8 && job.sourceN == 1) memory.copy(target, source, width << 3);
      else if (width == 4) packRow<u32>(source, job.sourceN, columns, target);
      else packRow<u16>(source, job.sourceN, columns, target);
    }
  }
}

function packRow<T>(source: usize, step: i32, columns: i32, target: usize): void {
  for (let column = 0; column < 8; column++, source += step * <i32>sizeof<T>(), target += sizeof<T>()) {
    store<T>(target, column < columns ? load<T>(source) : 0);
  }
}

/**
 * y = x · panels + y for `count` panels at w, k rows each; x is float32 and divided by what load4 leaves out. Two panels from the two halves
 * are read at once. `columns` is how many of y there are: the last panel may be cut.
 */
export function rowTimesPanels<T>(x: usize, k: i32, w: usize, count: i32, y: usize, columns: i32): void {
  const half = count >> 1;
  const bytes = <usize>k * 8 * sizeof<T>();
  const span = <usize>half * bytes;
  const end = x + (<usize>k << 2);
  for (let panel = 0; panel < half; panel++) {
    let a0 = zero(), a1 = a0, b0 = a0, b1 = a0;
    let p = w + panel * bytes;
    let q = x;
    do {
      const s = v128.load_splat<f32>(q);
      a0 = fma(load4<T>(p), s, a0);
      a1 = fma(load4<T>(p + 4 * sizeof<T>()), s, a1);
      b0 = fma(load4<T>(p + span), s, b0);
      b1 = fma(load4<T>(p + span + 4 * sizeof<T>()), s, b1);
      q += 4;
      p += 8 * sizeof<T>();
    } while (q < end);
    addColumns<T>(y, panel << 3, columns, a0, a1);
    addColumns<T>(y, (panel + half) << 3, columns, b0, b1);
  }
  if (count & 1) {
    let a0 = zero(), a1 = a0;
    let p = w + (count - 1) * bytes;
    let q = x;
    do {
      const s = v128.load_splat<f32>(q);
      a0 = fma(load4<T>(p), s, a0);
      a1 = fma(load4<T>(p + 4 * sizeof<T>()), s, a1);
      q += 4;
      p += 8 * sizeof<T>();
    } while (q < end);
    addColumns<T>(y, (count - 1) << 3, columns, a0, a1);
  }
}

/** y[first, first + 8) += a, b, times what load4 leaves out; not behind y's end. */
// @ts-ignore: decorator
@inline
function addColumns<T>(y: usize, first: i32, columns: i32, a: v128, b: v128): void {
  if (gain<T>() != 1) {
    a = f32x4.mul(a, f32x4.splat(gain<T>()));
    b = f32x4.mul(b, f32x4.splat(gain<T>()));
  }
  addEight(y + ((<usize>first) << 2), columns - first, a, b);
}

/** Adds eight numbers to those at y, or as many as there are. */
export function addEight(y: usize, count: i32, a: v128, b: v128): void {
  if (count >= 8) {
    v128.store(y, f32x4.add(v128.load(y), a));
    v128.store(y, f32x4.add(v128.load(y, 16), b), 16);
    return;
  }
  if (count >= 4) {
    v128.store(y, f32x4.add(v128.load(y), a));
    y += 16;
    count -= 4;
    a = b;
  }
  if (count > 0) store<f32>(y, load<f32>(y) + f32x4.extract_lane(a, 0));
  if (count > 1) store<f32>(y, load<f32>(y, 4) + f32x4.extract_lane(a, 1), 4);
  if (count > 2) store<f32>(y, load<f32>(y, 8) + f32x4.extract_lane(a, 2), 8);
}
