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

// @ts-ignore: decorator
@inline
export function isSpecial(p: usize): bool {
  return (load<u16>(p) & 0x7c00) == 0x7c00;
}
