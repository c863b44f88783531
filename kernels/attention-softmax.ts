/** The middle of an attention: scores become weights, relative to the largest score so far. */
import { expNegative, tanh } from "./exponential";
import { readOne, widthOf } from "./float-types";
import { gain, largest, sum } from "./simd";

/** What turns a sum of weights into 1; 0 where no key took part, so that the output is zero, and NaN where all that did scored −infinity. */
// @ts-ignore: decorator
@inline
export function inverse(total: f32, tookPart: bool): f32 {
  return total == 0 ? (tookPart ? NaN : 0) : 1 / total;
}

/** Of a split whose keys took part and all scored −infinity, the largest score that its partial shows. */
export const LOWEST: f32 = -3.4028234663852886e38;

/** Where a head's weights begin: at nothing, or at its sink, a score that takes part and brings no value. */
export function beginWeights(state: usize, sinks: usize, type: i32, head: i32): void {
  const sink = sinks ? readOne(sinks + <usize>(head * widthOf(type)), type) : -Infinity;
  store<f32>(state, sink);
  store<f32>(state, sink == -Infinity ? 0 : 1, 4);
}

/** Multiplies whole vectors. */
export function scaleRow(row: usize, bytes: usize, factor: f32): void {
  const f = f32x4.splat(factor);
  for (const end = row + bytes; row < end; row += 16) v128.store(row, f32x4.mul(v128.load(row), f));
}

/** Restores the scores' size and caps them. */
export function capScores<T>(scores: usize, count: i32, softcap: f32): void {
  const end = scores + ((<usize>count + 3) >> 2 << 4);
  if (softcap != 0) {
    const cap = f32x4.splat(softcap);
    const shrink = f32x4.splat(gain<T>() / softcap);
    for (; scores < end; scores += 16) v128.store(scores, f32x4.mul(tanh(f32x4.mul(v128.load(scores), shrink)), cap));
  } else if (gain<T>() != 1) {
    const factor = f32x4.splat(gain<T>());
    for (; scores < end; scores += 16) v128.store(scores, f32x4.mul(v128.load(scores), factor));
  }
}

/**
 * Online softmax of one block: scores become weights relative to the largest score so far. Returns the factor that brings the
 * accumulator to the same footing. Weights carry what load4 left out of the values.
 */
export function weighScores<T>(scores: usize, count: i32, state: usize): f32 {
  const end = scores + (((<usize>count + 3) >> 2) << 4);
  for (let i = count; i & 3; i++) store<f32>(scores + ((<usize>i) << 2), -Infinity);
  let top = f32x4.splat(-Infinity);
  for (let p = scores; p < end; p += 16) top = f32x4.max(top, v128.load(p));
  const before = load<f32>(state);
  const highest = max(before, largest(top));
  store<f32>(state, highest);
  const origin = f32x4.splat(highest == -Infinity ? 0 : highest); // all hidden so far: all weights are 0
  const gained = f32x4.splat(gain<T>() * gain<T>());
  let added = f32x4.splat(0);
  for (let p = scores; p < end; p += 16) {
    const weight = expNegative(f32x4.sub(v128.load(p), origin));
    added = f32x4.add(added, weight);
    v128.store(p, gain<T>() == 1 ? weight : f32x4.mul(weight, gained));
  }
  let factor: f32 = 1;
  if (before != -Infinity) factor = f32x4.extract_lane(expNegative(f32x4.splat(before - highest)), 0);
  store<f32>(state, load<f32>(state, 4) * factor + sum(added), 4);
  return factor;
}
