/**
 * Infinities and NaN of float16 caches, which load4 takes for numbers: what they do to scores and sums. The loops over rows say where some are,
 * by a mark.
 */
import { wovenStart, wovenStride } from "./attention-decode";
import { APART } from "./attention-rows";
import { FLOAT16 } from "./codes";
import { readOne } from "./float-types";
import { hasSpecials, isSpecial } from "./specials";

/**
 * Adds what special elements of `rows` rows give: of keys to the scores, times the woven queries; of values (`adds`) to the woven accumulators, times the
 * weights in place of scores. It is NaN or an infinity, beside which nothing counts. Values of weight 0 are not looked at when `skips`.
 */
export function meetSpecials<T>(
  p: usize, rowBytes: usize, rows: i32, woven: usize, size: i32, heads: i32, scores: usize, adds: bool, skips: bool,
): void {
  if (!hasSpecials<T>(p, rowBytes, rows, size)) return; // large numbers are marked too
  for (; rows > 0; rows--, p += rowBytes, scores += 4) {
    for (let i = 0; i < size; i++) {
      if (!isSpecial(p + (<usize>i << 1))) continue;
      const special = readOne(p + (<usize>i << 1), FLOAT16);
      for (let head = 0; head < heads; head++) {
        const score = scores + <usize>head * APART;
        const element = woven + wovenStart(head, size) + <usize>(i >> 2) * wovenStride(head, heads) + (<usize>(i & 3) << 2);
        const factor = load<f32>(adds ? score : element);
        if (skips && factor == 0) continue;
        const sum = adds ? element : score;
        store<f32>(sum, load<f32>(sum) + special * factor);
      }
    }
  }
}
