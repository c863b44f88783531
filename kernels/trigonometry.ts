/** Sine and cosine in float64 of numbers that float32 can hold, as exact as float64's own functions but for their last digits. */

/** 32 bits of 2 / π, the first ones behind the point first. */
function twoOverPi(word: i32): u64 {
  switch (word) {
    case 0: return 0xa2f9836e;
    case 1: return 0x4e441529;
    case 2: return 0xfc2757d1;
    case 3: return 0xf534ddc0;
    case 4: return 0xdb629599;
    case 5: return 0x3c439041;
    case 6: return 0xfe5163ab;
    default: return 0xdebbc561;
  }
}

/** The sine of x + turns · π / 2. */
export function sine(x: f64, turns: i32): f64 {
  if (!(abs(x) < Infinity)) return NaN;
  if (turns == 0 && abs(x) < 1e-8) return x; // the sign of zero too
  let rest: f64;
  if (abs(x) < 33554432) {
    // The first two parts of π / 2 have so few bits that their products are exact.
    const quarter = nearest(x * 0.6366197723675814);
    rest = x - quarter * 1.570796325802803;
    rest -= quarter * 9.920935739593517e-10;
    rest -= quarter * 5.721188726109832e-18;
    turns += <i32>quarter;
  } else {
    const bits = reinterpret<u32>(<f32>abs(x));
    const mantissa = <u64>((bits & 0x7fffff) | 0x800000);
    // Bits before these make whole turns.
    const first = <i32>(bits >> 23) - 127 - 25;
    const word = first >> 5;
    const shift = <u64>(first & 31);
    const high = (((twoOverPi(word) << 32) | twoOverPi(word + 1)) << shift) | ((twoOverPi(word + 2) << shift) >> 32);
    const low = (((twoOverPi(word + 2) << 32) | twoOverPi(word + 3)) << shift) >> 32;
    const product = mantissa * high + ((mantissa * low) >> 32); // quarters of a turn, 62 bits behind the point
    const quarter = (product + ((<u64>1) << 61)) >> 62;
    rest = <f64>(<i64>(product - (quarter << 62))) * 3.4061215800865545e-19; // π / 2 · 2^-62
    if (x < 0) {
      rest = -rest;
      turns -= <i32>quarter;
    } else turns += <i32>quarter;
  }
  const value = turns & 1 ? cosinePart(rest) : sinePart(rest);
  return turns & 2 ? -value : value;
}

/** For |x| up to π / 4. */
function sinePart(x: f64): f64 {
  const z = x * x;
  const tail = 2.75573137070700676789e-6 + z * (-2.50507602534068634195e-8 + z * 1.58969099521155010221e-10);
  const r = 8.33333333332248946124e-3 + z * (-1.98412698298579493134e-4 + z * tail);
  return x + z * x * (-1.66666666666666324348e-1 + z * r);
}

/** For |x| up to π / 4. */
function cosinePart(x: f64): f64 {
  const z = x * x;
  const tail = -2.75573143513906633035e-7 + z * (2.0875723212981748279e-9 + z * -1.13596475577881948265e-11);
  const r = z * (4.16666666666666019037e-2 + z * (-1.38888888888741095749e-3 + z * (2.48015872894767294178e-5 + z * tail)));
  const half = 0.5 * z;
  const whole = 1 - half;
  return whole + (1 - whole - half + z * r);
}
