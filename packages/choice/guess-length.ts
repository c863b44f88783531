/**
 * How many tokens a draft is asked for: as many as make the most tokens in the time that it takes, by how often its guesses were right lately and by what
 * steps have cost. None while that does not pay; then it is asked now and then whether it does again. Knows no model.
 */
import { guessing } from "./tuning.js";

/** Sizes that are measured as one: four of them between a number and twice that. */
function likeSize(size: number): number {
  const step = Math.max(1, 2 ** (Math.floor(Math.log2(Math.max(1, size))) - 2));
  return Math.ceil(size / step) * step;
}

/** Milliseconds by size, as they were lately. What else the machine does only adds to them: they follow the quick ones at once, and slow ones late. */
export class Costs {
  readonly #known = new Map<number, { readonly cost: number; readonly count: number }>();

  /** Durations of each size that were left out: the first ones prepare what the others only run. */
  readonly #first = new Map<number, number>();

  note(given: number, milliseconds: number): void {
    const size = likeSize(given);
    const first = this.#first.get(size) ?? 0;
    if (first < guessing.firstSteps) return void this.#first.set(size, first + 1);
    const { cost, count } = this.#known.get(size) ?? { cost: Math.min(milliseconds, this.#mostOf(size)), count: 0 };
    // Programs are made and bound anew in some of the first ones: the quickest of those tells most.
    const [quick, slow] = count < guessing.leastSteps ? [1, 0] : [guessing.quickShare, guessing.slowShare];
    const share = milliseconds < cost ? quick : slow;
    const taken = Math.min(milliseconds, guessing.outlier * cost);
    this.#known.set(size, { cost: cost + share * (taken - cost), count: count + 1 });
  }

  /** Each token of a step costs no more than in a smaller one. */
  #mostOf(size: number): number {
    let most = Infinity;
    for (const [known, { cost }] of this.#known) if (known < size) most = Math.min(most, (cost * size) / known);
    return most;
  }

  /** True if this size was measured often enough to be compared with. */
  isSure(size: number): boolean {
    return (this.#known.get(likeSize(size))?.count ?? 0) >= guessing.leastSteps;
  }

  /**
   * What one of this size takes: not more than any larger one, nor more for each token than a smaller one. As much as the next smaller one where no larger is
   * known: it is tried. Undefined where none is known. With `often`, those measured less often are not known: programs may have been made while they ran.
   */
  of(given: number, often = false): number | undefined {
    const size = likeSize(given);
    let [nearest, below, above]: [number, number | undefined, number] = [0, undefined, Infinity];
    for (const [known, { cost, count }] of this.#known) {
      if (often && count < guessing.leastSteps) continue;
      if (known >= size) above = Math.min(above, cost);
      else if (known > nearest) [nearest, below] = [known, cost];
    }
    return above < Infinity ? Math.min(above, this.#mostOf(size)) : below;
  }
}

/** How often guesses were right, one after the other; of those long ago less and less. */
export class Acceptance {
  #right: number;
  #tried: number;

  /** Begins with what is known of other texts, which are taken to be alike as far as much is known of them. */
  constructor(of?: Acceptance) {
    this.#tried = Math.min(guessing.mostTrials, of === undefined ? guessing.firstTrials : of.#tried);
    this.#right = this.#tried * (of?.share ?? guessing.firstShare);
  }

  /** The share of guesses that are right where all before them were. */
  get share(): number {
    return this.#right / this.#tried;
  }

  /** So many guesses were checked, and the first of them were right: those behind a wrong one say nothing. */
  note(guessed: number, right: number): void {
    const tried = Math.min(guessed, right + 1);
    const kept = guessing.memory ** tried;
    this.#right = kept * this.#right + right;
    this.#tried = kept * this.#tried + tried;
  }
}

/** How long a draft is left alone that does not pay: all its texts together try it again now and then, each time later. */
export class Rest {
  /** Tokens until then, and how many they were the last time. */
  #left = 0;
  #last = 0;

  /** Guesses since there was a step without. */
  #row = 0;
  /** Times that it is still asked, once it is tried. */
  #trials = 0;

  /** It pays: nothing is left of its rest. */
  end(): void {
    this.#last = this.#left = this.#trials = 0;
  }

  /** True if a step goes without guesses, to be measured. */
  isDue(): boolean {
    this.#row = (this.#row + 1) % guessing.mostRow;
    return this.#row === 0;
  }

  /** Takes tokens out of what is left, for one of several texts that goes on with them: how many. */
  take(texts: number): number {
    const taken = Math.max(0, Math.floor((this.#left - 1) / texts));
    this.#left -= taken;
    return taken;
  }

  /**
   * A token is made without it for one of `texts`; true if it is tried again, which is taken to cost as much time as so many tokens: it rests for so long that
   * this is little.
   */
  isOver(texts: number, lost: number): boolean {
    if (this.#trials > 0) return this.#trials-- > 0;
    const trials = texts * guessing.trials;
    const least = Math.ceil((trials * lost) / guessing.mostLost);
    if (this.#last === 0) this.#left = this.#last = Math.min(Math.max(guessing.firstRest, least), guessing.mostRest);
    if (--this.#left > 0) return false;
    this.#left = this.#last = Math.min(Math.max(2 * this.#last, least), guessing.mostRest);
    this.#trials = trials - 1;
    return true;
  }
}

/** What is known of guesses that cost nothing but their checks. */
export interface LookupsKnown {
  readonly steps: Costs;
  readonly acceptance: Acceptance;
  /** Texts of the last step. */
  texts: number;
}

/** The length of guesses for one text. */
export class GuessLength {
  readonly #most: number;
  readonly #acceptance: Acceptance;
  readonly #rest: Rest;

  constructor(most: number, acceptance: Acceptance, rest: Rest = new Rest()) {
    this.#most = most;
    this.#acceptance = acceptance;
    this.#rest = rest;
  }

  note(guessed: number, right: number): void {
    this.#acceptance.note(guessed, right);
  }

  /** Tokens that may follow one without a guess before it is asked again: as many as are measured, or as the draft rests for. */
  freeTokens(texts: number, step: Costs): number {
    return Math.max(step.isSure(texts) ? guessing.freeSteps : guessing.leastSteps, this.#rest.take(texts));
  }

  /** Tokens to guess for each of `texts` texts of one step. `draft`: milliseconds of one guess for all of them, where known. */
  choose(texts: number, step: Costs, draft: number | undefined): number {
    const alone = step.of(texts);
    // Steps without guesses are measured before there are any, and now and then again.
    if (alone === undefined || !step.isSure(texts) || this.#rest.isDue()) return 0;
    const { share } = this.#acceptance;
    const timeOf = (count: number): number => (step.of(texts * (1 + count), true) ?? alone) + count * (draft ?? 0);
    let [best, bestRate] = [0, 0];
    // Tokens that so many guesses make, by their number.
    const tokens = [1];
    for (let count = 1; count <= this.#most; count++) {
      tokens.push(tokens[count - 1] + share ** count);
      const rate = tokens[count] / timeOf(count);
      if (rate > bestRate) [best, bestRate] = [count, rate];
    }
    if (bestRate > guessing.margin / alone) {
      this.#rest.end();
      return best;
    }
    const tried = Math.min(this.#most, Math.max(best, guessing.probe));
    const lost = Math.max(0, timeOf(tried) / alone - tokens[tried]);
    return this.#rest.isOver(texts, lost) ? tried : 0;
  }
}
