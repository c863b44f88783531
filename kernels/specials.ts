/** Infinities and NaN of float16, which load4 takes for numbers: kernels that stream such rows look for them, and put right what they give. */
import { zero } from "./simd";

/** True if any element of `rows` rows that lie `rowBytes` apart is infinite or NaN, for the type that load4 does not tell it of. */
export function hasSpecials<T>(p: usize, rowBytes: usize, rows: i32, size: i32): bool {
  if (isFloat<T>() || isSigned<T>()) return false;
  const bytes = <usize>size << 1;
  if (rowBytes == bytes) return hasSpecial(p, bytes * rows);
  for (const end = p + rows * rowBytes; p < end; p += rowBytes) if (hasSpecial(p, bytes)) return true;
  return false;
}

/** The same of `bytes` bytes. */
function hasSpecial(p: usize, bytes: usize): bool {
  // Without their signs, as whole numbers, those from 0xf800 on are special.
  let a = zero(), b = a, c = a, d = a;
  const end = p + bytes;
  for (; p + 64 <= end; p += 64) {
    a = i16x8.max_u(a, i16x8.shl(v128.load(p), 1));
    b = i16x8.max_u(b, i16x8.shl(v128.load(p, 16), 1));
    c = i16x8.max_u(c, i16x8.shl(v128.load(p, 32), 1));
    d = i16x8.max_u(d, i16x8.shl(v128.load(p, 48), 1));
  }
  a = i16x8.max_u(i16x8.max_u(a, b), i16x8.max_u(c, d));
  for (; p < end; p += 2) a = i16x8.max_u(a, i16x8.shl(v128.load_splat<u16>(p), 1));
  return v128.any_true(i16x8.ge_u(a, i16x8.splat(<i16>0xf800)));
}

/**
 * What four elements add to a mark, the OR over rows: `isMarked` tells whether one may have been infinite or NaN. It is counted in whole
 * numbers, for which loops of fused products have units to spare; other loops have registers to spare, and `meet` in its place.
 */
// @ts-ignore: decorator
@inline
export function markOf<T>(p: usize): u64 {
  if (isFloat<T>() || isSigned<T>() || !ASC_FEATURE_RELAXED_SIMD) return 0;
  const x = load<u64>(p);
  return x & (x + x); // the two highest bits of exponents, at the place of the higher one: numbers from 512 on have them too
}

/** The largest of what was met and of the elements of two vectors as they lie, without their signs. */
// @ts-ignore: decorator
@inline
export function meet<T>(met: v128, raw: v128, raw2: v128): v128 {
  if (isFloat<T>() || isSigned<T>() || ASC_FEATURE_RELAXED_SIMD) return met;
  return i16x8.max_u(met, i16x8.shl(i16x8.narrow_i32x4_s(raw, raw2), 1));
}

/** The mark of what was met. */
// @ts-ignore: decorator
@inline
export function markMet<T>(met: v128): u64 {
  if (isFloat<T>() || isSigned<T>()) return 0;
  return v128.any_true(i16x8.ge_u(met, i16x8.splat(<i16>0xf800))) ? u64.MAX_VALUE : 0;
}

/**
 * What rows that are `span` and `span2` bytes apart add to a mark, two of them and two more from `p2` on, before a loop that has no units to spare
 * reads them from the first cache.
 */
// @ts-ignore: decorator
@inline
export function markRows<T>(p: usize, span: usize, p2: usize, span2: usize, size: i32): u64 {
  if (isFloat<T>() || isSigned<T>()) return 0;
  let a = zero(), b = a;
  const end = p + ((<usize>size) << 1);
  for (; p + 16 <= end; p += 16, p2 += 16) {
    a = i16x8.max_u(a, i16x8.shl(v128.load(p), 1));
    b = i16x8.max_u(b, i16x8.shl(v128.load(p + span), 1));
    a = i16x8.max_u(a, i16x8.shl(v128.load(p2), 1));
    b = i16x8.max_u(b, i16x8.shl(v128.load(p2 + span2), 1));
  }
  a = i16x8.max_u(a, b);
  if (p < end) {
    a = i16x8.max_u(a, i16x8.shl(i64x2(load<i64>(p), load<i64>(p + span)), 1));
    a = i16x8.max_u(a, i16x8.shl(i64x2(load<i64>(p2), load<i64>(p2 + span2)), 1));
  }
  return markMet<T>(a);
}

/** The mark of a row. */
export function markRow<T>(p: usize, size: i32): u64 {
  if (isFloat<T>() || isSigned<T>()) return 0;
  return hasSpecial(p, <usize>size << 1) ? u64.MAX_VALUE : 0;
}

// @ts-ignore: decorator
@inline
export function isMarked(mark: u64): bool {
  return (mark & 0x4000400040004000) != 0;
}

// @ts-ignore: decorator
@inline
export function isSpecial(p: usize): bool {
  return (load<u16>(p) & 0x7c00) == 0x7c00;
}
