/** Floats to bytes by one scale and zero point: given, or found in the data's own range. */
import { shareStart } from "./share";
import { largest } from "./simd";

/** Scale and zero point that float32 data ask for by their range, 0 in it: DynamicQuantizeLinear. */
@unmanaged
export class FindLevels {
  source: usize;
  count: i32;
  scale: usize; // float32, optional
  zero: usize; // uint8, optional
}

/** float32 to bytes by one scale, rounded to the nearest even. */
@unmanaged
export class WriteLevels {
  source: usize;
  output: usize;
  scale: usize; // float32
  zero: usize; // a byte, optional
  isSigned: i32; // 1 for int8, 0 for uint8
  count: i32;
}

/** The levels for the range of the data, widened to hold 0; data that are all 0 take the range [0, 1]. One part does it. */
export function findLevels(job: FindLevels, part: i32, parts: i32, scratch: usize): void {
  if (part > 0) return;
  let lows = f32x4.splat(0), highs = lows;
  let source = job.source;
  let left = job.count;
  for (; left >= 4; left -= 4, source += 16) {
    const x = v128.load(source);
    lows = f32x4.min(lows, x);
    highs = f32x4.max(highs, x);
  }
  let low = -largest(f32x4.neg(lows));
  let high = largest(highs);
  for (; left > 0; left--, source += 4) {
    low = min(low, load<f32>(source));
    high = max(high, load<f32>(source));
  }
  const scale: f32 = (low == high ? 1 : high - low) / 255;
  const zero = -(low / scale);
  if (job.scale) store<f32>(job.scale, scale);
  if (job.zero) store<u8>(job.zero, <u8>(zero > 0 ? nearest(min(zero, 255)) : 0));
}

/** The level of each element of one part; NaN takes the lowest. */
export function writeLevels(job: WriteLevels, part: i32, parts: i32, scratch: usize): void {
  const isSigned = job.isSigned != 0;
  const scale = f32x4.splat(load<f32>(job.scale));
  const zero = f32x4.splat(job.zero ? (isSigned ? <f32>load<i8>(job.zero) : <f32>load<u8>(job.zero)) : 0);
  const lowest = f32x4.splat(isSigned ? -128 : 0);
  const highest = f32x4.splat(isSigned ? 127 : 255);
  let from = shareStart(job.count, part, parts);
  const to = shareStart(job.count, part + 1, parts);
  for (; from + 4 <= to; from += 4) {
    const levels = levelsOf(v128.load(job.source + ((<usize>from) << 2)), scale, zero, lowest, highest);
    const bytes = v128.shuffle<i8>(levels, levels, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    v128.store_lane<u32>(job.output + from, bytes, 0);
  }
  for (; from < to; from++) {
    const levels = levelsOf(v128.load_splat<f32>(job.source + ((<usize>from) << 2)), scale, zero, lowest, highest);
    store<u8>(job.output + from, <u8>i32x4.extract_lane(levels, 0));
  }
}

// @ts-ignore: decorator
@inline
function levelsOf(x: v128, scale: v128, zero: v128, lowest: v128, highest: v128): v128 {
  const level = f32x4.add(f32x4.nearest(f32x4.div(x, scale)), zero);
  const held = f32x4.min(f32x4.max(level, lowest), highest);
  return i32x4.trunc_sat_f32x4_s(v128.bitselect(held, lowest, f32x4.eq(level, level)));
}
