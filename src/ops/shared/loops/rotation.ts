/** Rotary embedding's inner loop: turns pairs of a head's values by the angles of one row of the cosine and sine tables. */
import type { Numbers } from "../../../tensor/access.js";

/** The tables of the angles, and how pairs lie in a head. */
interface Rotation {
  readonly cos: Numbers; // [positions, pairs]
  readonly sin: Numbers; // [positions, pairs]
  /** How many pairs of each head are turned; the rest of the head passes. */
  readonly pairs: number;
  /** Pairs are neighbours; otherwise the first half of the turned values is paired with the second. */
  readonly interleaved: boolean;
}

/** Turns the head whose values start at `start` to `position`, in place. */
export function rotateHead(values: Float64Array, start: number, position: number, rotation: Rotation): void {
  const { cos, sin, pairs, interleaved } = rotation;
  const [pairStep, partnerStep] = interleaved ? [2, 1] : [1, pairs];
  const row = position * pairs;
  for (let pair = 0; pair < pairs; pair++) {
    const first = start + pair * pairStep;
    const second = first + partnerStep;
    const [a, b] = [values[first], values[second]];
    values[first] = cos[row + pair] * a - sin[row + pair] * b;
    values[second] = sin[row + pair] * a + cos[row + pair] * b;
  }
}
