/**
 * Rows of any element type to and from registers of 64-bit integers and float64: what kernels for integers, bools and exact results read
 * and write through. float16 and bfloat16 are rounded once, to the nearest even; integers keep the bits that fit.
 */
import { BFLOAT16, BOOL, DOUBLE, FLOAT16, FLOAT32, FLOAT64, INT16, INT32, INT8, INTEGER, UINT16, UINT32, UINT8 } from "./codes";
import { fromFloat16, toBfloat16, toFloat16 } from "./float-types";

/** `count` elements of `type`, `step` bytes apart, into a register: floats as f64, all others as 64-bit integers; a bool is 0 or 1. */
export function readElements(source: usize, type: i32, step: i32, target: usize, count: i32): void {
  switch (type) {
    case FLOAT32: return widen<f32, f64>(source, step, target, count);
    case FLOAT16:
    case BFLOAT16: return widenHalves(source, type, step, target, count);
    case BOOL: return readBools(source, step, target, count);
    case INT8: return widen<i8, i64>(source, step, target, count);
    case UINT8: return widen<u8, i64>(source, step, target, count);
    case INT16: return widen<i16, i64>(source, step, target, count);
    case UINT16: return widen<u16, i64>(source, step, target, count);
    case INT32: return widen<i32, i64>(source, step, target, count);
    case UINT32: return widen<u32, i64>(source, step, target, count);
    default: // FLOAT64 too: its bits
      if (step == 8) memory.copy(target, source, (<usize>count) << 3);
      else widen<i64, i64>(source, step, target, count);
  }
}

// @ts-ignore: decorator
@inline
function widen<S, T>(source: usize, step: i32, target: usize, count: i32): void {
  for (; count > 0; count--, source += step, target += 8) store<T>(target, <T>load<S>(source));
}

function widenHalves(source: usize, type: i32, step: i32, target: usize, count: i32): void {
  for (; count > 0; count--, source += step, target += 8) {
    const bits = i32x4.splat(<i32>load<u16>(source));
    store<f64>(target, <f64>f32x4.extract_lane(type == FLOAT16 ? fromFloat16(bits) : i32x4.shl(bits, 16), 0));
  }
}

function readBools(source: usize, step: i32, target: usize, count: i32): void {
  for (; count > 0; count--, source += step, target += 8) store<i64>(target, <i64>(load<u8>(source) != 0));
}

/** `count` elements of a register of `kind` to `type`, `step` bytes apart. */
export function writeElements(source: usize, kind: i32, target: usize, type: i32, step: i32, count: i32): void {
  switch (type) {
    case FLOAT32:
    case FLOAT16:
    case BFLOAT16:
    case FLOAT64: return writeFloats(source, kind, target, type, step, count);
    case BOOL: return writeBools(source, kind, target, step, count);
  }
  if (kind == DOUBLE) {
    for (let p = source, left = count; left > 0; left--, p += 8) store<i64>(p, wrapped(load<f64>(p)));
  }
  switch (type) {
    case INT8:
    case UINT8: return narrow<u8>(source, target, step, count);
    case INT16:
    case UINT16: return narrow<u16>(source, target, step, count);
    case INT32:
    case UINT32: return narrow<u32>(source, target, step, count);
    default: return narrow<u64>(source, target, step, count);
  }
}

// @ts-ignore: decorator
@inline
function narrow<T>(source: usize, target: usize, step: i32, count: i32): void {
  for (; count > 0; count--, source += 8, target += step) store<T>(target, <T>load<u64>(source));
}

/** Anything but 0 is true, NaN included. */
function writeBools(source: usize, kind: i32, target: usize, step: i32, count: i32): void {
  if (kind != DOUBLE && step == 1) {
    for (; count >= 4; count -= 4, source += 32, target += 4) {
      const low = i64x2.ne(v128.load(source), i64x2.splat(0)), high = i64x2.ne(v128.load(source, 16), i64x2.splat(0));
      const bytes = v128.shuffle<u8>(low, high, 0, 8, 16, 24, 0, 8, 16, 24, 0, 8, 16, 24, 0, 8, 16, 24);
      v128.store_lane<u32>(target, v128.and(bytes, i8x16.splat(1)), 0);
    }
  }
  for (; count > 0; count--, source += 8, target += step) {
    store<u8>(target, <u8>(kind == DOUBLE ? load<f64>(source) != 0 : load<i64>(source) != 0));
  }
}

function writeFloats(source: usize, kind: i32, target: usize, type: i32, step: i32, count: i32): void {
  if (type == FLOAT32) {
    if (kind == DOUBLE) return convertRow<f64, f32>(source, target, step, count);
    return kind == INTEGER
      ? convertRow<i64, f32>(source, target, step, count)
      : convertRow<u64, f32>(source, target, step, count);
  }
  if (type == FLOAT64) {
    if (kind == DOUBLE) return convertRow<f64, f64>(source, target, step, count);
    return kind == INTEGER
      ? convertRow<i64, f64>(source, target, step, count)
      : convertRow<u64, f64>(source, target, step, count);
  }
  for (; count > 0; count--, source += 8, target += step) {
    // To an odd float32 first: that leaves the rounding to 16 bits as if there had been one step.
    let single: f32;
    if (kind == DOUBLE) single = oddly(load<f64>(source));
    else single = oddly(kind == INTEGER ? oddlySigned(load<i64>(source)) : oddlyUnsigned(load<u64>(source)));
    const bits = f32x4.splat(single);
    store<u16>(target, <u16>i32x4.extract_lane(type == FLOAT16 ? toFloat16(bits) : toBfloat16(bits), 0));
  }
}

// @ts-ignore: decorator
@inline
function convertRow<S, T>(source: usize, target: usize, step: i32, count: i32): void {
  for (; count > 0; count--, source += 8, target += step) store<T>(target, <T>load<S>(source));
}

/** Rounded toward zero, and odd where that is not exact. */
function oddly(x: f64): f32 {
  const nearest = <f32>x;
  const back = <f64>nearest;
  if (back == x || x != x) return nearest;
  let bits = reinterpret<u32>(nearest);
  if (abs(back) > abs(x)) bits--;
  return reinterpret<f32>(bits | 1);
}

function oddlyUnsigned(x: u64): f64 {
  if (x < (<u64>1) << 53) return <f64>x;
  return <f64>(((x >> 11) | <u64>((x & 0x7ff) != 0)) << 11);
}

function oddlySigned(x: i64): f64 {
  return x < 0 ? -oddlyUnsigned(<u64>-x) : oddlyUnsigned(<u64>x);
}

/** Truncated toward zero, of which the lowest 64 bits; infinities and NaN are 0. */
function wrapped(x: f64): i64 {
  if (abs(x) < 9223372036854775808.0) return <i64>x;
  const bits = reinterpret<u64>(x);
  const exponent = <i32>((bits >> 52) & 0x7ff) - 1075; // of the mantissa's last bit
  if (exponent >= 64) return 0; // infinities and NaN too
  const whole = <i64>((bits & 0xfffffffffffff) | 0x10000000000000) << <i64>exponent;
  return x < 0 ? -whole : whole;
}
