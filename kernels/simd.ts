/**
 * Vector building blocks: arithmetic, sums over lanes, and the three float types as four lanes of float32.
 * The element types are named by AssemblyScript types: f32, u16 for float16, i16 for bfloat16, i8 for integers of 8 bits.
 */

/** a · b + c, rounded once where the build has relaxed SIMD. */
// @ts-ignore: decorator
@inline
export function fma(a: v128, b: v128, c: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, c);
  return f32x4.add(f32x4.mul(a, b), c);
}

// @ts-ignore: decorator
@inline
export function zero(): v128 {
  return i32x4.splat(0);
}

/** The sum of the four lanes. */
// @ts-ignore: decorator
@inline
export function sum(a: v128): f32 {
  a = f32x4.add(a, v128.shuffle<i32>(a, a, 2, 3, 0, 1));
  a = f32x4.add(a, v128.shuffle<i32>(a, a, 1, 0, 3, 2));
  return f32x4.extract_lane(a, 0);
}

/** The sums of four vectors, one a lane. */
// @ts-ignore: decorator
@inline
export function sums(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab = f32x4.add(v128.shuffle<i32>(a, b, 0, 4, 1, 5), v128.shuffle<i32>(a, b, 2, 6, 3, 7));
  const cd = f32x4.add(v128.shuffle<i32>(c, d, 0, 4, 1, 5), v128.shuffle<i32>(c, d, 2, 6, 3, 7));
  return f32x4.add(v128.shuffle<i64>(ab, cd, 0, 2), v128.shuffle<i64>(ab, cd, 1, 3));
}

/** Bytes of two vectors in turn: the first eight of each. */
// @ts-ignore: decorator
@inline
export function interleaveLow(a: v128, b: v128): v128 {
  return v128.shuffle<i8>(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

/** The last eight of each. */
// @ts-ignore: decorator
@inline
export function interleaveHigh(a: v128, b: v128): v128 {
  return v128.shuffle<i8>(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/** The largest of the four lanes. */
// @ts-ignore: decorator
@inline
export function largest(a: v128): f32 {
  a = f32x4.max(a, v128.shuffle<i32>(a, a, 2, 3, 0, 1));
  a = f32x4.max(a, v128.shuffle<i32>(a, a, 1, 0, 3, 2));
  return f32x4.extract_lane(a, 0);
}

/**
 * Four elements of type T at p. float16 comes out divided by 2^112, which the caller multiplies back where it costs least (`gain`);
 * its infinities and NaN come out as numbers, which `hasSpecials` tells. Integers of 8 bits come out times `byteGain`.
 */
// @ts-ignore: decorator
@inline
export function load4<T>(p: usize): v128 {
  return widen4<T>(raw4<T>(p));
}

/** Four elements of type T at p as they lie, one a lane. */
// @ts-ignore: decorator
@inline
export function raw4<T>(p: usize): v128 {
  if (isFloat<T>()) return v128.load(p);
  if (sizeof<T>() == 1) return v128.load_zero<i32>(p);
  return isSigned<T>() ? v128.load_ext<u16>(p) : v128.load_ext<i16>(p);
}

/** What load4 makes of them. */
// @ts-ignore: decorator
@inline
export function widen4<T>(raw: v128): v128 {
  if (isFloat<T>()) return raw;
  if (sizeof<T>() == 1) return fromBytes(raw);
  if (isSigned<T>()) return i32x4.shl(raw, 16);
  return v128.and(i32x4.shl(raw, 13), i32x4.splat(<i32>0x8fffe000));
}

/** The first four of the bytes as float32, times `byteGain`: where one instruction brings each to the top of its lane, there they stay. */
// @ts-ignore: decorator
@inline
function fromBytes(bytes: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) {
    const tops = i8x16(-1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3);
    return f32x4.convert_i32x4_s(i8x16.relaxed_swizzle(bytes, tops));
  }
  return f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(i16x8.extend_low_i8x16_s(bytes)));
}

/** What load4 multiplies integers of 8 bits by. */
// @ts-ignore: decorator
@inline
export function byteGain(): f32 {
  return ASC_FEATURE_RELAXED_SIMD ? 16777216.0 : 1; // 2^24
}

/** The first `count` (1 to 3) of four elements at p, zeros behind them; reads no byte more. */
export function loadTail<T>(p: usize, count: i32): v128 {
  let a = zero();
  if (isFloat<T>()) {
    a = v128.load_zero<f32>(p);
    if (count > 1) a = v128.load_lane<f32>(p, a, 1, 4);
    if (count > 2) a = v128.load_lane<f32>(p, a, 2, 8);
    return a;
  }
  if (sizeof<T>() == 1) {
    a = v128.load_lane<i8>(p, a, 0);
    if (count > 1) a = v128.load_lane<i8>(p, a, 1, 1);
    if (count > 2) a = v128.load_lane<i8>(p, a, 2, 2);
    return fromBytes(a);
  }
  a = i32x4.replace_lane(a, 0, <i32>load<i16>(p));
  if (count > 1) a = i32x4.replace_lane(a, 1, <i32>load<i16>(p, 2));
  if (count > 2) a = i32x4.replace_lane(a, 2, <i32>load<i16>(p, 4));
  if (isSigned<T>()) return i32x4.shl(a, 16);
  return v128.and(i32x4.shl(a, 13), i32x4.splat(<i32>0x8fffe000));
}

/** The square root of what load4 and loadTail leave out: two factors of it restore the value. */
// @ts-ignore: decorator
@inline
export function gain<T>(): f32 {
  if (isFloat<T>()) return 1;
  if (isSigned<T>()) return 1;
  return 72057594037927936.0; // 2^56
}
