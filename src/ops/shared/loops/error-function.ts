/** The error function and its complement to about float64's last digits: a power series near 0, a continued fraction beyond. */

const seriesEnd = 1.5;
const fractionDepth = 100;

/** erf by its series of positive terms: 2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (1·3·…·(2n+1)). For |x| below `seriesEnd`. */
function series(x: number): number {
  const square = x * x;
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > Math.abs(sum) * 1e-17; n++) {
    term *= (2 * square) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-square) * sum;
}

/** erfc by Laplace's continued fraction e^(−x²)/√π · 1/(x + ½/(x + 1/(x + 3⁄2/(x + …)))). For x from `seriesEnd` on. */
function tail(x: number): number {
  let fraction = x;
  for (let k = fractionDepth; k > 0; k--) fraction = x + k / 2 / fraction;
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / fraction;
}

/** The error function. */
export function erf(x: number): number {
  if (Number.isNaN(x)) return NaN;
  if (Math.abs(x) < seriesEnd) return series(x);
  return x > 0 ? 1 - tail(x) : tail(-x) - 1;
}

/** 1 − erf(x), without cancellation where x is large. */
export function erfc(x: number): number {
  if (Number.isNaN(x)) return NaN;
  if (Math.abs(x) < seriesEnd) return 1 - series(x);
  return x > 0 ? tail(x) : 2 - tail(-x);
}
