/**
 * Functions of floats in WGSL, as exact as float32 asks and right for NaN and infinities, which shaders may otherwise take for absent:
 * the builtins' own errors are bounded only loosely. Whoever calls some says which: `functionsPart` declares them, and those that they call.
 */
import type { ShaderPart } from "../../../webgpu-kernels/shader-part.js";
import { scoreFunctions } from "./score-marks.js";

/** Functions by name. */
const functions = {
  ...scoreFunctions,
  isNan: `fn isNan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }`,
  isInfinite: `fn isInfinite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }`,
  // Constants that are no finite numbers are refused: these are made when the shader runs.
  notANumber: `fn notANumber() -> f32 { var bits = 0x7fc00000u; return bitcast<f32>(bits); }`,
  infinity: `fn infinity() -> f32 { var bits = 0x7f800000u; return bitcast<f32>(bits); }`,
  larger: `fn larger(x: f32, y: f32) -> f32 {
  if (isNan(x)) { return x; }
  if (isNan(y)) { return y; }
  return select(y, x, x > y);
}`,
  smaller: `fn smaller(x: f32, y: f32) -> f32 {
  if (isNan(x)) { return x; }
  if (isNan(y)) { return y; }
  return select(y, x, x < y);
}`,
  exponential: `fn exponential(x: f32) -> f32 {
  let y = select(exp(clamp(x, -104.0, 88.72284)), 0.0, x < -104.0);
  return select(select(y, infinity(), x > 88.72284), x, isNan(x));
}`,
  // e^x − 1.
  exponentialLess1: `fn exponentialLess1(x: f32) -> f32 {
  if (abs(x) > 0.5 || isNan(x)) { return exponential(x) - 1.0; }
  return x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666668 + x * (0.008333334 + x * (0.0013888889 + x * 0.0001984127))))));
}`,
  // ln x by its exponent and 2·artanh of the rest, which lies in [√½, √2].
  logarithm: `fn logarithm(x: f32) -> f32 {
  let given = bitcast<u32>(x);
  if ((given & 0x7fffffffu) == 0u) { return -infinity(); }
  if (isNan(x) || given == 0x7f800000u) { return x; }
  if (given > 0x7f800000u) { return notANumber(); }
  // Of subnormal numbers, which devices may take for 0, the bits are a whole number of 2^-149.
  let small = given < 0x00800000u;
  let bits = select(given, bitcast<u32>(f32(given)), small);
  let shifted = bits - 0x3f3504f3u;
  let power = (bitcast<i32>(shifted) >> 23u) - select(0, 149, small);
  let rest = bitcast<f32>((shifted & 0x007fffffu) + 0x3f3504f3u);
  let s = (rest - 1.0) / (rest + 1.0);
  let q = s * s;
  return f32(power) * 0.6931472 + 2.0 * s * (1.0 + q * (0.33333334 + q * (0.2 + q * (0.14285715 + q * 0.11111111))));
}`,
  // ln(1 + x) for x in [0, 1], as 2·artanh(x / (2 + x)).
  logarithmOf1Plus: `fn logarithmOf1Plus(x: f32) -> f32 {
  let s = x / (2.0 + x);
  let q = s * s;
  return 2.0 * s * (1.0 + q * (0.33333334 + q * (0.2 + q * (0.14285715 + q * (0.11111111 + q * (0.09090909 + q * (0.07692308 + q * 0.06666667)))))));
}`,
  sigmoid: `fn sigmoid(x: f32) -> f32 {
  let e = exponential(-abs(x));
  return select(e, 1.0, x >= 0.0) / (1.0 + e);
}`,
  softplus: `fn softplus(x: f32) -> f32 {
  if (isNan(x)) { return x; }
  return max(x, 0.0) + logarithmOf1Plus(exponential(-abs(x)));
}`,
  // Without branches: attention calls it for every score, and drivers take their time over what is inlined many times.
  hyperbolicTangent: `fn hyperbolicTangent(x: f32) -> f32 {
  let size = abs(x);
  let q = min(x * x, 1.0);
  let near = x + x * q * (-0.33333282 + q * (0.13331442 + q * (-0.053739716 + q * (0.02063909 + q * -0.0057049887))));
  let far = 1.0 - 2.0 / (exp(2.0 * min(size, 20.0)) + 1.0);
  return select(select(select(far, -far, x < 0.0), near, size < 0.625), x, isNan(x));
}`,
  // The complement of the error function, to a part in ten million also where it is small.
  errorComplement: `fn errorComplement(x: f32) -> f32 {
  if (isNan(x)) { return x; }
  let size = min(abs(x), 20.0);
  let t = 1.0 / (1.0 + 0.5 * size);
  let tail = t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 + t * (0.27886807 +
    t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));
  let y = t * exponential(-size * size - 1.26551223 + tail);
  return select(y, 2.0 - y, x < 0.0);
}`,
  errorFunction: `fn errorFunction(x: f32) -> f32 {
  if (abs(x) > 0.5 || isNan(x)) { return 1.0 - errorComplement(x); }
  let q = x * x;
  return 1.1283792 * x * (1.0 + q * (-0.33333334 + q * (0.1 + q * (-0.023809524 + q * (0.0046296297 + q * -0.0007575758)))));
}`,
  gelu: `fn gelu(x: f32) -> f32 {
  if (bitcast<u32>(x) == 0x7f800000u) { return x; }
  return 0.5 * x * errorComplement(-0.70710677 * x);
}`,
  geluByTangent: `fn geluByTangent(x: f32) -> f32 {
  if (bitcast<u32>(x) == 0x7f800000u) { return x; }
  return 0.5 * x * (1.0 + hyperbolicTangent(0.7978846 * x * (1.0 + 0.044715 * x * x)));
}`,
  // The upper half of a product.
  highProduct: `fn highProduct(a: u32, b: u32) -> u32 {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let first = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let second = (a & 0xffffu) * (b >> 16u) + (first & 0xffffu);
  return (a >> 16u) * (b >> 16u) + (first >> 16u) + (second >> 16u);
}`,
  // An angle of at least ½ as its distance from the nearest quarter turn, and the number of that one: 2/π's own bits are multiplied.
  reducedAngle: `fn reducedAngle(x: f32) -> vec2f {
  var twoOverPi = array<u32, 6>(0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u);
  let bits = bitcast<u32>(x);
  let mantissa = (bits << 8u) | 0x80000000u;
  let power = ((bits >> 23u) & 0xffu) - 126u;
  let first = power >> 5u;
  let shift = power & 31u;
  var high = 0u;
  if (first > 0u) { high = twoOverPi[first - 1u]; }
  var middle = twoOverPi[first];
  var low = twoOverPi[first + 1u];
  if (shift > 0u) {
    high = (high << shift) | (middle >> (32u - shift));
    middle = (middle << shift) | (low >> (32u - shift));
    low = (low << shift) | (twoOverPi[first + 2u] >> (32u - shift));
  }
  let carried = highProduct(mantissa, low);
  var fine = mantissa * middle + carried;
  var coarse = mantissa * high + highProduct(mantissa, middle) + select(0u, 1u, fine < carried);
  var quarter = coarse >> 30u;
  coarse = coarse & 0x3fffffffu;
  let above = coarse >= 0x20000000u;
  if (above) {
    quarter += 1u;
    fine = ~fine + 1u;
    coarse = (~coarse & 0x3fffffffu) + select(0u, 1u, fine == 0u);
  }
  let zeros = min(countLeadingZeros(coarse), 31u);
  var top = coarse;
  if (zeros > 0u) { top = (coarse << zeros) | (fine >> (32u - zeros)); }
  let size = f32(top) * bitcast<f32>((127u - zeros) << 23u) * 1.4629181e-9;
  return vec2f(select(size, -size, above != (x < 0.0)), f32(select(quarter, 0u - quarter, x < 0.0) & 3u));
}`,
  sineNear0: `fn sineNear0(x: f32) -> f32 {
  let q = x * x;
  return x + x * q * (-0.16666655 + q * (0.0083321609 + q * -0.00019515296));
}`,
  cosineNear0: `fn cosineNear0(x: f32) -> f32 {
  let q = x * x;
  return 1.0 - 0.5 * q + q * q * (0.041666646 + q * (-0.0013887316 + q * 2.4433157e-5));
}`,
  // The sine of x and `ahead` quarter turns.
  sineAhead: `fn sineAhead(x: f32, ahead: u32) -> f32 {
  if (isNan(x) || isInfinite(x)) { return notANumber(); }
  var angle = vec2f(x, 0.0);
  if (abs(x) >= 0.5) { angle = reducedAngle(x); }
  let quarter = u32(angle.y) + ahead;
  let y = select(sineNear0(angle.x), cosineNear0(angle.x), (quarter & 1u) == 1u);
  return select(y, -y, (quarter & 2u) == 2u);
}`,
  sine: `fn sine(x: f32) -> f32 { return sineAhead(x, 0u); }`,
  cosine: `fn cosine(x: f32) -> f32 { return sineAhead(x, 1u); }`,
  wholePower: `fn wholePower(base: f32, exponent: f32) -> f32 {
  var result = 1.0;
  var square = base;
  var rest = u32(abs(exponent));
  while (rest > 0u) {
    if ((rest & 1u) == 1u) { result *= square; }
    square *= square;
    rest >>= 1u;
  }
  return select(result, 1.0 / result, exponent < 0.0);
}`,
  // Small whole exponents by multiplication, which keeps signs, zeros and infinities; others by logarithms.
  power: `fn power(base: f32, exponent: f32) -> f32 {
  if (base == 1.0 || exponent == 0.0) { return 1.0; }
  if (isNan(base)) { return base; }
  if (isNan(exponent)) { return exponent; }
  let size = abs(base);
  if (isInfinite(exponent)) {
    if (size == 1.0) { return 1.0; }
    return select(0.0, infinity(), (size > 1.0) == (exponent > 0.0));
  }
  let whole = floor(exponent) == exponent;
  if (whole && abs(exponent) <= 64.0) { return wholePower(base, exponent); }
  if (base < 0.0 && !whole && !isInfinite(base)) { return notANumber(); }
  var y = 0.0;
  if (size == 0.0 || isInfinite(size)) { y = select(0.0, infinity(), (size == 0.0) == (exponent < 0.0)); }
  else if (exponent == 0.5) { y = sqrt(size); }
  else { y = exponential(exponent * logarithm(size)); }
  let odd = whole && abs(exponent) < 16777216.0 && (u32(abs(exponent)) & 1u) == 1u;
  return select(y, -y, base < 0.0 && odd);
}`,
  wholePowerOfInteger: `fn wholePowerOfInteger(base: i32, exponent: i32) -> i32 {
  if (exponent < 0) {
    if (base == 1) { return 1; }
    return select(0, select(1, -1, (exponent & 1) == 1), base == -1);
  }
  var result = 1;
  var square = base;
  var rest = exponent;
  while (rest > 0) {
    if ((rest & 1) == 1) { result *= square; }
    square *= square;
    rest >>= 1u;
  }
  return result;
}`,
  // The low 32 bits of a float without its fraction; 0 for what is no finite number.
  truncated: `fn truncated(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let power = (bits >> 23u) & 0xffu;
  if (power < 127u || power > 181u) { return 0u; }
  let mantissa = (bits & 0x007fffffu) | 0x00800000u;
  var size = 0u;
  if (power < 150u) { size = mantissa >> (150u - power); }
  else if (power < 182u) { size = mantissa << (power - 150u); }
  return select(size, 0u - size, (bits >> 31u) == 1u);
}`,
} as const;

/** A function of the table. */
export type FunctionName = keyof typeof functions;

/** What they call of each other. */
const calls: Readonly<Partial<Record<FunctionName, readonly FunctionName[]>>> = {
  larger: ["isNan"],
  smaller: ["isNan"],
  exponential: ["isNan", "infinity"],
  exponentialLess1: ["isNan", "exponential"],
  logarithm: ["isNan", "notANumber", "infinity"],
  sigmoid: ["exponential"],
  softplus: ["isNan", "exponential", "logarithmOf1Plus"],
  hyperbolicTangent: ["isNan"],
  errorComplement: ["isNan", "exponential"],
  errorFunction: ["isNan", "errorComplement"],
  gelu: ["errorComplement"],
  geluByTangent: ["hyperbolicTangent"],
  reducedAngle: ["highProduct"],
  sineAhead: ["isNan", "isInfinite", "notANumber", "reducedAngle", "sineNear0", "cosineNear0"],
  sine: ["sineAhead"],
  cosine: ["sineAhead"],
  power: ["isNan", "isInfinite", "notANumber", "infinity", "exponential", "logarithm", "wholePower"],
  weighedMean: ["notANumber"],
};

/** The part with these functions. */
export const functionsPart = (...names: readonly FunctionName[]): ShaderPart => ({
  uses: names.map((name) => ({ code: functions[name], uses: [functionsPart(...(calls[name] ?? []))] })),
});
