/** How fast the pairs of a head turn from one position to the next. */

/** Waves longer than the first training's texts are stretched, short ones are not, those in between are mixed: by their frequency, as Llama 3 has it. */
export interface RopeScaling {
  readonly kind?: "llama3";
  readonly factor: number;
  readonly lowFrequencyFactor: number;
  readonly highFrequencyFactor: number;
  /** Positions of the first training. */
  readonly originalPositions: number;
}

/** YaRN: pairs that turn more than `fast` times in the first training's texts stay, those of less than `slow` turns are stretched, those in between are mixed by their place. */
export interface YarnScaling {
  readonly kind: "yarn";
  readonly factor: number;
  readonly fast: number;
  readonly slow: number;
  readonly originalPositions: number;
}

interface Rotary {
  readonly headSize: number;
  readonly ropeTheta: number;
  readonly ropeScaling?: RopeScaling | YarnScaling;
}

/** What YaRN's cosines and sines are multiplied by; 1 for everybody else. */
export const rotaryMagnitude = ({ ropeScaling }: Pick<Rotary, "ropeScaling">): number =>
  ropeScaling?.kind === "yarn" ? 0.1 * Math.log(ropeScaling.factor) + 1 : 1;

/** The share of stretching that each pair has: pairs before the first whole one of those in between have none, those behind the last all. */
function yarnShares(
  { headSize, ropeTheta }: Rotary,
  { fast, slow, originalPositions }: YarnScaling,
): readonly number[] {
  const pairOf = (turns: number): number =>
    (headSize * Math.log(originalPositions / (turns * 2 * Math.PI))) / (2 * Math.log(ropeTheta));
  const first = Math.max(0, Math.floor(pairOf(fast)));
  const last = Math.min(headSize - 1, Math.ceil(pairOf(slow)));
  return Array.from({ length: headSize / 2 }, (_, pair) =>
    Math.min(1, Math.max(0, (pair - first) / Math.max(0.001, last - first))),
  );
}

/** What each pair's frequency is divided by: [head / 2]. */
export function rotaryDivisors(rotary: Rotary): Float64Array {
  const { headSize, ropeTheta, ropeScaling } = rotary;
  const half = headSize / 2;
  if (ropeScaling?.kind === "yarn")
    return Float64Array.from(yarnShares(rotary, ropeScaling), (share) => 1 / (share / ropeScaling.factor + 1 - share));
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
