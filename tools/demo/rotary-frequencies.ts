/** How fast the pairs of a head turn from one position to the next. */

/** Llama 3's scaling: waves longer than the first training's texts are stretched, short ones are not, those in between are mixed. */
export interface RopeScaling {
  readonly factor: number;
  readonly lowFrequencyFactor: number;
  readonly highFrequencyFactor: number;
  /** Positions of the first training. */
  readonly originalPositions: number;
}

interface Rotary {
  readonly headSize: number;
  readonly ropeTheta: number;
  readonly ropeScaling?: RopeScaling;
}

/** What each pair's frequency is divided by: [head / 2]. */
export function rotaryDivisors({ headSize, ropeTheta, ropeScaling }: Rotary): Float64Array {
  const half = headSize / 2;
  return Float64Array.from({ length: half }, (_, pair) => {
    if (ropeScaling === undefined) return 1;
    const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalPositions } = ropeScaling;
    const turns = (originalPositions * ropeTheta ** (-pair / half)) / (2 * Math.PI);
    if (turns > high) return 1;
    if (turns < low) return factor;
    const share = (turns - low) / (high - low);
    return 1 / ((1 - share) / factor + share);
  });
}

/** Radians a position for each pair: [head / 2]. */
export function rotaryFrequencies(rotary: Rotary): Float64Array {
  const half = rotary.headSize / 2;
  return rotaryDivisors(rotary).map((divisor, pair) => rotary.ropeTheta ** (-pair / half) / divisor);
}
