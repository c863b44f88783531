/** The arithmetic of one query's attention, in float64: scores, softmax with an optional sink, and the weighted sum of values. */
import type { Numbers } from "../../../tensor/access.js";

/** Writes factor · q·k to `scores` for the keys `from` to `to` (exclusive); q and every key have `size` values. */
export function scoreKeys(
  scores: Float64Array,
  query: { readonly rows: Numbers; readonly row: number },
  keys: Numbers,
  {
    from,
    to,
    size,
    factor,
  }: { readonly from: number; readonly to: number; readonly size: number; readonly factor: number },
): void {
  const start = query.row * size;
  for (let key = from; key < to; key++) {
    let sum = 0;
    for (let i = 0; i < size; i++) sum += query.rows[start + i] * keys[key * size + i];
    scores[key] = sum * factor;
  }
}

/**
 * Turns the scores `from` to `to` (exclusive) into weights, in place. A sink takes part in the sum and gets no weight of its own.
 * Scores that are all −∞ give weights of zero.
 */
export function softmaxRange(
  scores: Float64Array,
  from: number,
  to: number,
  sink: number | undefined = -Infinity,
): void {
  let largest = sink;
  for (let i = from; i < to; i++) largest = Math.max(largest, scores[i]);
  if (largest === -Infinity) return void scores.fill(0, from, to);
  let sum = Math.exp(sink - largest);
  for (let i = from; i < to; i++) sum += scores[i] = Math.exp(scores[i] - largest);
  for (let i = from; i < to; i++) scores[i] /= sum;
}

/** Adds up weight · value over the keys `from` to `to` (exclusive) into `target` from `at` on; every value has `size` numbers. */
export function weighValues(
  target: Float64Array,
  at: number,
  weights: Float64Array,
  values: Numbers,
  { from, to, size }: { readonly from: number; readonly to: number; readonly size: number },
): void {
  for (let key = from; key < to; key++) {
    const weight = weights[key];
    for (let i = 0; i < size; i++) target[at + i] += weight * values[key * size + i];
  }
}
