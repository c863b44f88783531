/** How a token is chosen from logits: its options, their checks, and the choice. Knows no model, tokenizer or state. */
import { InsituError } from "../base/error.js";
import { seededRandom } from "../graph/call.js";

/** How the next token is chosen. What is left out comes from the model's generation_config.json, then from the defaults here. */
export interface SamplingOptions {
  /** 0 takes the likeliest token; 1 is the model's own distribution. */
  readonly temperature?: number;
  /** Only the likeliest `topK` tokens; 0 for all. */
  readonly topK?: number;
  /** Only the likeliest tokens that together have this probability. */
  readonly topP?: number;
  /** Only tokens at least this share as likely as the likeliest. */
  readonly minP?: number;
  /** Above 1, tokens that were there already get less likely; logits are divided, or multiplied where negative. */
  readonly repetitionPenalty?: number;
  /** Taken from the logits of tokens that this generation already made. */
  readonly presencePenalty?: number;
  /** Taken from them once for each time they were made. */
  readonly frequencyPenalty?: number;
  /** The same seed gives the same text; a random one where left out. */
  readonly seed?: number;
}

/** Sampling options without gaps. */
export type Sampling = Required<SamplingOptions>;

/** Each option's default, and the rule it must obey. */
const rules: Readonly<
  Record<keyof SamplingOptions, readonly [fallback: number, rule: string, holds: (x: number) => boolean]>
> = {
  temperature: [0, "a number from 0 on", (x) => x >= 0 && x < Infinity],
  topK: [0, "a whole number from 0 on", (x) => Number.isInteger(x) && x >= 0],
  topP: [1, "above 0 and at most 1", (x) => x > 0 && x <= 1],
  minP: [0, "from 0 to 1", (x) => x >= 0 && x <= 1],
  repetitionPenalty: [1, "a number above 0", (x) => x > 0 && x < Infinity],
  presencePenalty: [0, "a finite number", Number.isFinite],
  frequencyPenalty: [0, "a finite number", Number.isFinite],
  seed: [0, "a whole number", Number.isSafeInteger],
};

/** The options with defaults filled in; throws for values that mean nothing. */
export function readSampling(options: SamplingOptions, defaults: SamplingOptions = {}): Sampling {
  const read = (name: keyof SamplingOptions): number => {
    const [fallback, rule, holds] = rules[name];
    const given = options[name] ?? defaults[name] ?? (name === "seed" ? randomSeed() : fallback);
    if (typeof given !== "number" || !holds(given))
      throw new InsituError("invalid-argument", `option ${name} must be ${rule}, got ${String(given)}`);
    return given;
  };
  return {
    temperature: read("temperature"),
    topK: read("topK"),
    topP: read("topP"),
    minP: read("minP"),
    repetitionPenalty: read("repetitionPenalty"),
    presencePenalty: read("presencePenalty"),
    frequencyPenalty: read("frequencyPenalty"),
    seed: read("seed"),
  };
}

const randomSeed = (): number => Math.floor(Math.random() * 2 ** 31);

/** Chooses tokens one after another. Holds the chain of random numbers and what was made so far. */
export class Sampler {
  readonly #options: Sampling;
  readonly #random: () => number;
  /** Tokens of the prompt and of the text so far. */
  readonly #seen = new Set<number>();
  /** How often this generation made each token. */
  readonly #made = new Map<number, number>();
  #scores = new Float32Array(0);
  #sorted = new Float32Array(0);

  constructor(options: Sampling, prompt: Iterable<number> = []) {
    this.#options = options;
    this.#random = seededRandom(options.seed);
    for (const token of prompt) this.#seen.add(token);
  }

  /** The next token. The logits are left as they are. */
  choose(logits: Float32Array): number {
    const { temperature, topK, topP, minP } = this.#options;
    const scores = this.#penalized(logits);
    const best = likeliest(scores);
    if (temperature === 0) return best;
    const most = scores[best];
    // exp((score - most) / temperature) is the weight of a token: 1 for the likeliest.
    const weightOf = (score: number): number => Math.exp((score - most) / temperature);
    let least = minP > 0 ? most + temperature * Math.log(minP) : -Infinity;
    let count = scores.length;
    if ((topK > 0 && topK < count) || topP < 1) {
      const sorted = this.#descending(scores);
      if (topK > 0) count = Math.min(count, topK);
      if (topP < 1) count = nucleus(sorted, count, topP, weightOf);
      least = Math.max(least, sorted[count - 1]);
    }
    return draw(scores, least, count, weightOf, this.#random());
  }

  /** Notes that a token became part of the text. */
  accept(token: number): void {
    this.#seen.add(token);
    this.#made.set(token, (this.#made.get(token) ?? 0) + 1);
  }

  #penalized(logits: Float32Array): Float32Array {
    const { repetitionPenalty, presencePenalty, frequencyPenalty } = this.#options;
    if (repetitionPenalty === 1 && presencePenalty === 0 && frequencyPenalty === 0) return logits;
    if (this.#scores.length !== logits.length) this.#scores = new Float32Array(logits.length);
    const scores = this.#scores;
    scores.set(logits);
    if (repetitionPenalty !== 1)
      for (const token of this.#seen) scores[token] *= scores[token] > 0 ? 1 / repetitionPenalty : repetitionPenalty;
    for (const [token, times] of this.#made) scores[token] -= presencePenalty + times * frequencyPenalty;
    return scores;
  }

  #descending(scores: Float32Array): Float32Array {
    if (this.#sorted.length !== scores.length) this.#sorted = new Float32Array(scores.length);
    this.#sorted.set(scores);
    return this.#sorted.sort().reverse();
  }
}

/** The index of the largest entry, the first where there are several. */
export function likeliest(scores: Float32Array): number {
  let best = 0;
  for (let index = 1; index < scores.length; index++) if (scores[index] > scores[best]) best = index;
  return best;
}

/** How many of the first `count` sorted scores it takes for the share `topP` of their weight. */
function nucleus(sorted: Float32Array, count: number, topP: number, weightOf: (score: number) => number): number {
  let total = 0;
  for (let index = 0; index < count; index++) total += weightOf(sorted[index]);
  let sum = 0;
  for (let index = 0; index < count; index++) {
    sum += weightOf(sorted[index]);
    if (sum >= topP * total) return index + 1;
  }
  return count;
}

/** An index by weight among the scores of at least `least`, at most `count` of them; `chance` lies in [0, 1). */
function draw(
  scores: Float32Array,
  least: number,
  count: number,
  weightOf: (score: number) => number,
  chance: number,
): number {
  // Of several scores that equal the least one, only the first may be among the `count`.
  let equal = count;
  for (const score of scores) if (score > least) equal--;
  let total = 0;
  let left = equal;
  const weightAt = (index: number): number => {
    const score = scores[index];
    if (score < least || (score === least && left-- <= 0)) return 0;
    return weightOf(score);
  };
  for (let index = 0; index < scores.length; index++) total += weightAt(index);
  left = equal;
  let rest = chance * total;
  let last = 0;
  for (let index = 0; index < scores.length; index++) {
    const weight = weightAt(index);
    if (weight === 0) continue;
    last = index;
    rest -= weight;
    if (rest < 0) return index;
  }
  return last;
}

/** The logarithm of the sum of the exponentials: what turns a logit into a log-probability. */
export function logSumExp(logits: Float32Array): number {
  const most = logits[likeliest(logits)];
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - most);
  return most + Math.log(sum);
}

/** The `count` likeliest tokens, likeliest first, with their log-probabilities. */
export function likeliestTokens(logits: Float32Array, count: number): { token: number; logprob: number }[] {
  const all = logSumExp(logits);
  const best: { token: number; logprob: number }[] = [];
  for (let token = 0; token < logits.length; token++) {
    const logprob = logits[token] - all;
    if (best.length === count && logprob <= best[count - 1].logprob) continue;
    let at = best.length;
    while (at > 0 && best[at - 1].logprob < logprob) at--;
    best.splice(at, 0, { token, logprob });
    if (best.length > count) best.pop();
  }
  return best;
}
