/**
 * Scores as attention's shaders compare them: finite numbers alone, since WGSL lets a device take NaN and infinities for absent, and `max(NaN, x)` may be
 * x. What is no finite number is told by its bits and becomes a mark beyond those that scores are clamped to.
 */

/** Of a key that takes no part: its place or a mask hides it. */
export const hidden = "-3.4028234e38";

/** Below it are marks of hidden keys alone. */
const lowest = "-3.3e38";

/** −∞: it takes part and weighs nothing. */
const nothing = "-3.2e38";

/** Scores that weigh something are not below it. */
export const least = "-3.0e38";

const greatest = "3.0e38";

/** NaN or +∞: no weight of its row is a number. */
const broken = "3.4028234e38";

/** Scores whose bits, without the sign, are beyond these may be marks: they are looked at one by one. */
const ordinary = "0x7f61b1e6u";

/**
 * `isMarked`: whether a tile of keys from `front` on may have marks. Scores that are finite and seen by all need none; where more is done to scores than
 * the scale (`isPlain` is false), all are gone through.
 */
export const markedIf = (isPlain: boolean, keys: number, scores: readonly string[]): string =>
  isPlain
    ? `var bits = vec4u();
    ${scores.map((name) => `bits = max(bits, bitcast<vec4u>(${name}) & vec4u(0x7fffffffu));`).join("\n")}
    let isMarked = front < everyFrom || front + ${keys} > everyTo || max(max(bits.x, bits.y), max(bits.z, bits.w)) > ${ordinary};`
    : "let isMarked = true;";

/** Tells hidden keys by their scores: their values may be anything, also where they would be multiplied by 0. */
export const isHidden = (score: string, vector: string): string => `${score} < ${vector}(${lowest})`;

/** Functions in WGSL of scores and marks, by name. */
export const scoreFunctions = {
  // The score of a key that takes part, or its mark.
  boundedScore: `fn boundedScore(score: f32) -> f32 {
  let bits = bitcast<u32>(score);
  let isBroken = (bits == 0x7f800000u) | ((bits & 0x7fffffffu) > 0x7f800000u);
  return select(select(clamp(score, ${least}, ${greatest}), ${nothing}, bits == 0xff800000u), ${broken}, isBroken);
}`,
  // The same of four scores.
  boundedScores: `fn boundedScores(scores: vec4f) -> vec4f {
  let bits = bitcast<vec4u>(scores);
  let areBroken = (bits == vec4u(0x7f800000u)) | ((bits & vec4u(0x7fffffffu)) > vec4u(0x7f800000u));
  let bounded = clamp(scores, vec4f(${least}), vec4f(${greatest}));
  return select(select(bounded, vec4f(${nothing}), bits == vec4u(0xff800000u)), vec4f(${broken}), areBroken);
}`,
  // Values by their weights' sum, given the greatest score of their row: zeros where all keys are hidden, NaN where softmax has no number.
  weighedMean: `fn weighedMean(sum: vec4f, total: f32, top: f32) -> vec4f {
  if (top > ${greatest} || (total == 0.0 && top > ${lowest})) { return vec4f(notANumber()); }
  return select(sum / total, vec4f(), total == 0.0);
}`,
} as const;
