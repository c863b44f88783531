/**
 * Rows of float16 and bfloat16 to and from float32, exactly: infinities, NaN and subnormals included, to the nearest even on the
 * way down. Kernels that work in float32 read and write other types through these.
 */
import { FLOAT16, FLOAT32 } from "./codes";
import { shareStart } from "./share";

/** Between float types, float16 and bfloat16 rounded to the nearest even. */
@unmanaged
export class Convert {
  source: usize;
  target: usize;
  sourceType: i32; // elementCode
  targetType: i32;
  count: i32;
}

// @ts-ignore: decorator
@inline
export function widthOf(type: i32): i32 {
  return type == FLOAT32 ? 4 : 2;
}

/** Bits of float16 in the low half of each lane to float32. */
// @ts-ignore: decorator
@inline
export function fromFloat16(bits: v128): v128 {
  const magnitude = v128.and(bits, i32x4.splat(0x7fff));
  const sign = i32x4.shl(v128.and(bits, i32x4.splat(0x8000)), 16);
  const scaled = f32x4.mul(i32x4.shl(magnitude, 13), f32x4.splat(5192296858534827628530496329220096.0)); // 2^112
  const special = v128.and(i32x4.gt_s(magnitude, i32x4.splat(0x7bff)), i32x4.splat(0x7f800000));
  return v128.or(v128.or(scaled, special), sign);
}

/** float32 to bits of float16, one in the low half of each lane. */
// @ts-ignore: decorator
@inline
export function toFloat16(a: v128): v128 {
  const magnitude = v128.and(a, i32x4.splat(0x7fffffff));
  const sign = v128.and(i32x4.shr_u(a, 16), i32x4.splat(0x8000));
  const odd = v128.and(i32x4.shr_u(magnitude, 13), i32x4.splat(1));
  const normal = i32x4.shr_u(i32x4.add(i32x4.add(magnitude, odd), i32x4.splat(0xfff - 0x38000000)), 13);
  // Adding 1/2 rounds to multiples of 2^-24, the step of the subnormals.
  const subnormal = i32x4.sub(f32x4.add(magnitude, f32x4.splat(0.5)), i32x4.splat(0x3f000000));
  let bits = v128.bitselect(subnormal, normal, i32x4.lt_s(magnitude, i32x4.splat(0x38800000)));
  bits = v128.bitselect(i32x4.splat(0x7c00), bits, i32x4.gt_s(magnitude, i32x4.splat(0x477fefff)));
  bits = v128.bitselect(i32x4.splat(0x7e00), bits, i32x4.gt_s(magnitude, i32x4.splat(0x7f800000)));
  return v128.or(bits, sign);
}

/** float32 to bits of bfloat16, one in the low half of each lane. */
// @ts-ignore: decorator
@inline
export function toBfloat16(a: v128): v128 {
  const odd = v128.and(i32x4.shr_u(a, 16), i32x4.splat(1));
  const rounded = i32x4.shr_u(i32x4.add(i32x4.add(a, odd), i32x4.splat(0x7fff)), 16);
  const quiet = v128.or(i32x4.shr_u(a, 16), i32x4.splat(0x40));
  return v128.bitselect(quiet, rounded, f32x4.ne(a, a));
}

/** One element as float32. */
export function readOne(source: usize, type: i32): f32 {
  if (type == FLOAT32) return load<f32>(source);
  const bits = i32x4.splat(<i32>load<u16>(source));
  return f32x4.extract_lane(type == FLOAT16 ? fromFloat16(bits) : i32x4.shl(bits, 16), 0);
}

/** Writes one element. */
export function writeOne(target: usize, type: i32, value: f32): void {
  if (type == FLOAT32) store<f32>(target, value);
  else {
    const bits = type == FLOAT16 ? toFloat16(f32x4.splat(value)) : toBfloat16(f32x4.splat(value));
    store<u16>(target, <u16>i32x4.extract_lane(bits, 0));
  }
}

/** `count` elements of `type` at `source` to float32 at `target`. */
export function readRow(source: usize, type: i32, target: usize, count: i32): void {
  if (type == FLOAT32) {
    memory.copy(target, source, <usize>count << 2);
    return;
  }
  let left = count;
  if (type == FLOAT16) {
    for (; left >= 4; left -= 4, source += 8, target += 16) v128.store(target, fromFloat16(v128.load_ext<u16>(source)));
  } else {
    for (; left >= 4; left -= 4, source += 8, target += 16) v128.store(target, i32x4.shl(v128.load_ext<u16>(source), 16));
  }
  for (; left > 0; left--, source += 2, target += 4) store<f32>(target, readOne(source, type));
}

/** Elements that lie `step` apart to float32. */
export function readElements(source: usize, type: i32, step: i32, target: usize, count: i32): void {
  if (step == 1) {
    readRow(source, type, target, count);
    return;
  }
  for (const end = target + ((<usize>count) << 2); target < end; target += 4, source += step * widthOf(type)) {
    store<f32>(target, readOne(source, type));
  }
}

/** `count` elements of float32 at `source` to `type` at `target`. */
export function writeRow(source: usize, target: usize, type: i32, count: i32): void {
  if (type == FLOAT32) {
    memory.copy(target, source, <usize>count << 2);
    return;
  }
  let left = count;
  if (type == FLOAT16) {
    for (; left >= 4; left -= 4, source += 16, target += 8) {
      const bits = toFloat16(v128.load(source));
      v128.store_lane<u64>(target, i16x8.narrow_i32x4_u(bits, bits), 0);
    }
  } else {
    for (; left >= 4; left -= 4, source += 16, target += 8) {
      const bits = toBfloat16(v128.load(source));
      v128.store_lane<u64>(target, i16x8.narrow_i32x4_u(bits, bits), 0);
    }
  }
  for (; left > 0; left--, source += 4, target += 2) writeOne(target, type, load<f32>(source));
}

/** Converts one part of the elements, 1024 of them at a time through scratch when neither side is float32. */
export function convert(job: Convert, part: i32, parts: i32, scratch: usize): void {
  const from = shareStart(job.count, part, parts);
  const to = shareStart(job.count, part + 1, parts);
  const sourceType = job.sourceType;
  const targetType = job.targetType;
  for (let first = from; first < to; first += 1024) {
    const count = min(1024, to - first);
    const source = job.source + <usize>first * widthOf(sourceType);
    const target = job.target + <usize>first * widthOf(targetType);
    if (targetType == FLOAT32) readRow(source, sourceType, target, count);
    else if (sourceType == FLOAT32) writeRow(source, target, targetType, count);
    else {
      readRow(source, sourceType, scratch, count);
      writeRow(scratch, target, targetType, count);
    }
  }
}

/** 1024 elements as float32. */
export function convertScratch(job: Convert): usize {
  return 1024 * 4;
}
