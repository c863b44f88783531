/** How a token is chosen from logits: its options, their checks, and the choice. Knows no model, tokenizer or state. */
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import { leastTemperature, mostNoise, mostNucleus, TokenNoise } from "../base/token-noise.js";
import type { DrawingOptions } from "../decoder/token-drawer.js";
import type { TokenConstraint } from "./constraint.js";
import { Truncation } from "./truncation.js";

/** How the next token is chosen. What is left out comes from the model's generation_config.json, then from the defaults here. */
export interface SamplingOptions {
  /**
   * How random the choice is: 0 always takes the most likely token (greedy decoding), 1 samples from the model's own distribution.
   * @default the model's own from generation_config.json, else 0
   */
  readonly temperature?: number | undefined;
  /**
   * Samples from the `topK` most likely tokens only; 0 means all.
   * @default the model's own, else 0
   */
  readonly topK?: number | undefined;
  /**
   * Nucleus sampling: samples from the most likely tokens that together have this probability.
   * @default the model's own, else 1
   */
  readonly topP?: number | undefined;
  /**
   * Leaves out tokens that are less likely than this share of the most likely one.
   * @default the model's own, else 0
   */
  readonly minP?: number | undefined;
  /**
   * Above 1, tokens of the prompt and of the text so far become less likely: positive logits are divided by it, negative ones multiplied.
   * @default the model's own, else 1
   */
  readonly repetitionPenalty?: number | undefined;
  /**
   * Subtracted once from the logit of each token that this generation already contains.
   * @default 0
   */
  readonly presencePenalty?: number | undefined;
  /**
   * Subtracted from a token's logit for each time that this generation already contains it.
   * @default 0
   */
  readonly frequencyPenalty?: number | undefined;
  /**
   * Makes sampling repeatable: the same seed gives the same completion.
   * @default a random seed, which `summary.seed` reports
   */
  readonly seed?: number | undefined;
}

/** Sampling options without gaps. */
export type Sampling = Required<SamplingOptions>;

/** Their names. */
export const samplingOptionNames: OptionNames<SamplingOptions> = {
  temperature: true,
  topK: true,
  topP: true,
  minP: true,
  repetitionPenalty: true,
  presencePenalty: true,
  frequencyPenalty: true,
  seed: true,
};

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

/**
 * The options with the model's defaults filled in; throws for values that mean nothing. What a model says of how to sample it means nothing
 * to a caller who asks for the likeliest token instead: its repetition penalty is not his.
 */
export function readSampling(options: SamplingOptions, defaults: SamplingOptions = {}): Sampling {
  const unsampled = options.temperature === 0 && (defaults.temperature ?? 0) > 0;
  const read = (name: keyof SamplingOptions): number => {
    const [fallback, rule, holds] = rules[name];
    const given =
      options[name] ?? (unsampled ? undefined : defaults[name]) ?? (name === "seed" ? randomSeed() : fallback);
    if (typeof given !== "number" || !holds(given))
      throw new InsituError("invalid-argument", `option ${name} must be ${rule}, got ${valueText(given)}`);
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

/** What a device is told of how to draw; undefined for options of which it knows nothing. */
export function drawingOf(sampling: Sampling): DrawingOptions | undefined {
  const { temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty } = sampling;
  const isKnown = presencePenalty === 0 && frequencyPenalty === 0;
  const isFound = temperature < leastTemperature || topP === 1 || (topK > 0 && topK <= mostNucleus);
  return isKnown && isFound ? { temperature, topK, topP, minP, repetitionPenalty } : undefined;
}

const randomSeed = (): number => Math.floor(Math.random() * 2 ** 31);

/** What a text is held to beside its sampling options: after penalties, before anything is cut off. */
interface Limits {
  /** Added to the logits of these tokens. */
  readonly bias?: ReadonlyMap<number, number> | undefined;
  readonly constraint?: TokenConstraint | undefined;
}

/**
 * Chooses tokens one after another, and notes what was made so far. The draw with a number is a function of the seed alone, and the same as
 * the operator SampleToken makes: where a text is made has no say in it but for rounding.
 */
export class Sampler {
  readonly #options: Sampling;
  readonly #noise: TokenNoise;
  /** Tokens chosen so far. */
  #choices = 0;
  /** Tokens of the prompt and of the text so far. */
  readonly #seen = new Set<number>();
  /** How often this generation made each token. */
  readonly #made = new Map<number, number>();
  readonly #truncation = new Truncation();
  readonly #limits: Limits;
  #scores = new Float32Array(0);
  #mask = new Uint32Array(0);

  constructor(options: Sampling, prompt: Iterable<number> = [], limits: Limits = {}) {
    this.#options = options;
    this.#limits = limits;
    this.#noise = new TokenNoise(options.seed);
    for (const token of prompt) this.#seen.add(token);
  }

  /** The next token is chosen elsewhere. */
  skip(): void {
    this.#choices++;
  }

  /** The next token, none of those that are barred. The logits are left as they are. */
  choose(logits: Float32Array, barred?: ReadonlySet<number>): number {
    return this.#choose(this.#choices++, logits, barred);
  }

  /** What would be chosen behind tokens that are guessed, by the logits of whoever guesses; nothing is noted. The constraint has its say on the first alone. */
  guess(logits: Float32Array, guessed: readonly number[], barred?: ReadonlySet<number>): number {
    const fresh = guessed.filter((token) => !this.#seen.has(token));
    for (const token of fresh) this.#seen.add(token);
    for (const token of guessed) this.#made.set(token, (this.#made.get(token) ?? 0) + 1);
    try {
      return this.#choose(this.#choices + guessed.length, logits, barred, guessed.length === 0);
    } finally {
      for (const token of fresh) this.#seen.delete(token);
      for (const token of guessed) {
        const times = this.#made.get(token)! - 1;
        if (times === 0) this.#made.delete(token);
        else this.#made.set(token, times);
      }
    }
  }

  #choose(number: number, logits: Float32Array, barred?: ReadonlySet<number>, isNext = true): number {
    const { temperature, topK, topP, minP } = this.#options;
    this.#noise.begin(number);
    const scores = this.#without(this.#limited(this.#penalized(logits), isNext), barred);
    const best = likeliest(scores);
    const most = scores[best];
    if (!Number.isFinite(most)) throw noChoice(String(most));
    if (temperature < leastTemperature) return best;
    const kept = this.#truncation.keep(scores, most, temperature, topK, topP);
    const least = minP > 0 ? Math.max(kept.least, most + temperature * Math.log(minP)) : kept.least;
    return this.#draw(scores, least, kept.count, most, temperature);
  }

  /** Notes that a token became part of the text. */
  accept(token: number): void {
    if (this.#limits.constraint?.accept(token) === false)
      throw new InsituError("invalid-argument", `the text's grammar allowed token ${token} and does not take it`);
    this.#seen.add(token);
    this.#made.set(token, (this.#made.get(token) ?? 0) + 1);
  }

  #penalized(logits: Float32Array): Float32Array {
    const { repetitionPenalty, presencePenalty, frequencyPenalty } = this.#options;
    if (repetitionPenalty === 1 && presencePenalty === 0 && frequencyPenalty === 0) return logits;
    const scores = this.#own(logits);
    if (repetitionPenalty !== 1)
      for (const token of this.#seen) scores[token] *= scores[token] > 0 ? 1 / repetitionPenalty : repetitionPenalty;
    for (const [token, times] of this.#made) scores[token] -= presencePenalty + times * frequencyPenalty;
    return scores;
  }

  /** Scores with the bias; what the constraint rules out is -Infinity. */
  #limited(given: Float32Array, isNext: boolean): Float32Array {
    const { bias, constraint } = this.#limits;
    let scores = given;
    if (bias !== undefined && bias.size > 0) {
      scores = this.#own(scores);
      for (const [token, more] of bias) if (token < scores.length) scores[token] += more;
    }
    if (constraint === undefined || !isNext) return scores;
    const words = Math.ceil(scores.length / 32);
    if (this.#mask.length !== words) this.#mask = new Uint32Array(words);
    this.#mask.fill(0);
    if (!constraint.fillMask(this.#mask)) return scores;
    if (this.#mask.every((bits) => bits === 0))
      throw new InsituError("invalid-argument", "the completion cannot match its grammar: no token can come next");
    scores = this.#own(scores);
    for (let word = 0; word < words; word++) {
      const bits = this.#mask[word];
      const end = Math.min(scores.length, 32 * word + 32);
      if (bits === 0) scores.fill(-Infinity, 32 * word, end);
      else if (bits !== 0xffffffff)
        for (let token = 32 * word; token < end; token++)
          if (((bits >>> (token & 31)) & 1) === 0) scores[token] = -Infinity;
    }
    return scores;
  }

  /** Scores in which what is barred is -Infinity. */
  #without(given: Float32Array, barred: ReadonlySet<number> | undefined): Float32Array {
    if (barred === undefined || barred.size === 0) return given;
    const scores = this.#own(given);
    for (const token of barred) if (token < scores.length) scores[token] = -Infinity;
    return scores;
  }

  /** A copy of scores that may be written. */
  #own(scores: Float32Array): Float32Array {
    if (scores === this.#scores) return scores;
    if (this.#scores.length !== scores.length) this.#scores = new Float32Array(scores.length);
    this.#scores.set(scores);
    return this.#scores;
  }

  /** A token by weight among the scores of at least `least`, at most `count` of them, the first where several equal the least one. */
  #draw(scores: Float32Array, least: number, count: number, most: number, temperature: number): number {
    let equal = count;
    for (let token = 0; token < scores.length; token++) if (scores[token] > least) equal--;
    let [best, largest] = [0, -Infinity];
    for (let token = 0; token < scores.length; token++) {
      const score = scores[token];
      if (!(score >= least) || (score === least && equal-- <= 0)) continue;
      const level = (score - most) / temperature;
      // Most tokens could not win by any noise.
      if (!(level + mostNoise > largest)) continue;
      const key = level + this.#noise.at(token);
      if (key > largest) [best, largest] = [token, key];
    }
    return best;
  }
}

/** The error for logits of which none is a largest number. */
const noChoice = (found: string): InsituError =>
  new InsituError("invalid-model", `the model's logits cannot be sampled: the largest is ${found}`);

/** The index of the largest entry, the first where there are several; NaN is none. Four are asked at once: hardly any is the largest so far. */
function likeliest(scores: Float32Array): number {
  let best = 0;
  let most = -Infinity;
  let at = 0;
  for (const last = scores.length - 3; at < last; at += 4)
    if (scores[at] > most || scores[at + 1] > most || scores[at + 2] > most || scores[at + 3] > most)
      for (let index = at; index < at + 4; index++) if (scores[index] > most) most = scores[(best = index)];
  for (; at < scores.length; at++) if (scores[at] > most) most = scores[(best = at)];
  return best;
}
