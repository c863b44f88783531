/**
 * exp and what is made of it, four lanes at a time, to about 1e-7 of the value. Bounds are taken by pmax and pmin, which are one
 * instruction each and keep a NaN in their first operand.
 */
import { fma } from "./simd";

/** e^x for x from -87.33 to 88.72; outside of it the result has no meaning. */
// @ts-ignore: decorator
@inline
function expInRange(x: v128): v128 {
  // z holds the nearest integer n to x / ln 2 in its low bits: x = n · ln 2 + r, with ln 2 in two pieces so that r is exact.
  const z = fma(x, f32x4.splat(1.44269504), f32x4.splat(12582912.0));
  const n = f32x4.sub(z, f32x4.splat(12582912.0));
  let r = fma(n, f32x4.splat(-0.693359375), x);
  r = fma(n, f32x4.splat(2.1219444e-4), r);
  let p = fma(r, f32x4.splat(1.9875691500e-4), f32x4.splat(1.3981999507e-3));
  p = fma(p, r, f32x4.splat(8.3334519073e-3));
  p = fma(p, r, f32x4.splat(4.1665795894e-2));
  p = fma(p, r, f32x4.splat(1.6666665459e-1));
  p = fma(p, r, f32x4.splat(5.0000001201e-1));
  p = f32x4.add(fma(p, f32x4.mul(r, r), r), f32x4.splat(1));
  return i32x4.add(p, i32x4.shl(z, 23)); // times 2^n
}

/** e^x for x ≤ 0, NaN kept; 0 from -87.33 down. */
// @ts-ignore: decorator
@inline
export function expNegative(x: v128): v128 {
  const e = expInRange(f32x4.pmax(x, f32x4.splat(-87.33)));
  return v128.andnot(e, f32x4.lt(x, f32x4.splat(-87.33)));
}

/** e^x: 0 from -87.33 down, infinity from 88.73 up, NaN kept. */
// @ts-ignore: decorator
@inline
export function exp(x: v128): v128 {
  const bounded = f32x4.pmin(f32x4.pmax(x, f32x4.splat(-87.33)), f32x4.splat(88.7228317));
  const e = v128.andnot(expInRange(bounded), f32x4.lt(x, f32x4.splat(-87.33)));
  return v128.bitselect(f32x4.splat(Infinity), e, f32x4.gt(x, f32x4.splat(88.7228317)));
}

/** 1 / (1 + e^-x) */
// @ts-ignore: decorator
@inline
export function sigmoid(x: v128): v128 {
  return f32x4.div(f32x4.splat(1), f32x4.add(f32x4.splat(1), exp(f32x4.neg(x))));
}

// @ts-ignore: decorator
@inline
export function tanh(x: v128): v128 {
  const magnitude = f32x4.abs(x);
  // Near 0 a polynomial, so that small results keep their digits; elsewhere 1 - 2 / (e^2|x| + 1).
  const s = f32x4.mul(x, x);
  let p = fma(s, f32x4.splat(-5.70498872745e-3), f32x4.splat(2.06390887954e-2));
  p = fma(p, s, f32x4.splat(-5.37397155531e-2));
  p = fma(p, s, f32x4.splat(1.33314422036e-1));
  p = fma(p, s, f32x4.splat(-3.33332819422e-1));
  const near = fma(f32x4.mul(p, s), x, x);
  const e = exp(f32x4.add(magnitude, magnitude));
  const far = f32x4.sub(f32x4.splat(1), f32x4.div(f32x4.splat(2), f32x4.add(e, f32x4.splat(1))));
  const signed = v128.or(far, v128.and(x, i32x4.splat(0x80000000)));
  return v128.bitselect(near, signed, f32x4.lt(magnitude, f32x4.splat(0.625)));
}

/** The error function. */
// @ts-ignore: decorator
@inline
export function erf(x: v128): v128 {
  const magnitude = f32x4.abs(x);
  const s = f32x4.mul(magnitude, magnitude);
  let p = fma(s, f32x4.splat(-5.99104969e-4), f32x4.splat(4.99339588e-3));
  p = fma(p, s, f32x4.splat(-2.67667342e-2));
  p = fma(p, s, f32x4.splat(1.12818025e-1));
  p = fma(p, s, f32x4.splat(-3.76124859e-1));
  p = fma(p, s, f32x4.splat(1.28379151e-1));
  const near = fma(p, magnitude, magnitude);
  const bounded = f32x4.pmin(magnitude, f32x4.splat(3.925));
  let q = fma(bounded, f32x4.splat(1.7294893e-5), f32x4.splat(-3.8320868e-4));
  q = fma(q, bounded, f32x4.splat(3.88393435e-3));
  q = fma(q, bounded, f32x4.splat(-2.42545605e-2));
  q = fma(q, bounded, f32x4.splat(1.06777847e-1));
  q = fma(q, bounded, f32x4.splat(6.34846687e-1));
  q = fma(q, bounded, f32x4.splat(1.28717512e-1));
  q = fma(q, bounded, bounded);
  const far = f32x4.sub(f32x4.splat(1), expNegative(f32x4.neg(q)));
  const size = v128.bitselect(near, far, f32x4.lt(magnitude, f32x4.splat(0.921875)));
  return v128.or(size, v128.and(x, i32x4.splat(0x80000000)));
}

/** 1 - erf(z) for z ≥ 0, to about 1e-6 of the value: e^-z² · t · e^p(t), with t = 1 / (1 + z / 2), by Chebyshev fitting. */
// @ts-ignore: decorator
@inline
export function complementaryError(z: v128): v128 {
  const t = f32x4.div(f32x4.splat(1), fma(z, f32x4.splat(0.5), f32x4.splat(1)));
  let p = fma(t, f32x4.splat(0.17087277), f32x4.splat(-0.82215223));
  p = fma(p, t, f32x4.splat(1.48851587));
  p = fma(p, t, f32x4.splat(-1.13520398));
  p = fma(p, t, f32x4.splat(0.27886807));
  p = fma(p, t, f32x4.splat(-0.18628806));
  p = fma(p, t, f32x4.splat(0.09678418));
  p = fma(p, t, f32x4.splat(0.37409196));
  p = fma(p, t, f32x4.splat(1.00002368));
  p = fma(p, t, f32x4.splat(-1.26551223));
  return f32x4.mul(t, expNegative(f32x4.sub(p, f32x4.mul(z, z))));
}

/** log(1 + e^x) = max(x, 0) + log(1 + e^-|x|) */
// @ts-ignore: decorator
@inline
export function softplus(x: v128): v128 {
  // log(1 + t) = 2 · artanh(t / (2 + t)), whose series keeps the digits of small t.
  const t = expNegative(f32x4.neg(f32x4.abs(x)));
  const s = f32x4.div(t, f32x4.add(t, f32x4.splat(2)));
  const q = f32x4.mul(s, s);
  let p = fma(q, f32x4.splat(1.0 / 13.0), f32x4.splat(1.0 / 11.0));
  p = fma(p, q, f32x4.splat(1.0 / 9.0));
  p = fma(p, q, f32x4.splat(1.0 / 7.0));
  p = fma(p, q, f32x4.splat(1.0 / 5.0));
  p = fma(p, q, f32x4.splat(1.0 / 3.0));
  p = fma(p, q, f32x4.splat(1));
  return fma(f32x4.add(s, s), p, f32x4.pmax(x, f32x4.splat(0)));
}
