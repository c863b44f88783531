/**
 * How many tokens a draft is asked for: as many as make the most tokens in the time that it takes, by how often its guesses were right lately and by what
 * steps have cost. None while that does not pay; then it is asked now and then whether it does again. Knows no model.
 */
import { guessing } from "./tuning.js";

/** Milliseconds by size, as they were lately. What else the machine does only adds to them: they follow the quick ones at once, and slow ones late. */
export class Costs {
  readonly #known = new Map<number, { readonly cost: number; readonly count: number }>();

  /** Durations of each size that were left out: the first ones prepare what the others only run. */
  readonly #first = new Map<number, number>();

  note(size: number, milliseconds: number): void {
    const first = this.#first.get(size) ?? 0;
    if (first < guessing.firstSteps) return void this.#first.set(size, first + 1);
    const { cost, count } = this.#known.get(size) ?? { cost: Math.min(milliseconds, this.#mostOf(size)), count: 0 };
    const share = milliseconds < cost ? guessing.quickShare : guessing.slowShare;
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
    return (this.#known.get(size)?.count ?? 0) >= guessing.leastSteps;
  }

  /** What one of this size takes: not more than any larger one. As much as the next smaller one where no larger is known: it is tried. Undefined where none is known. */
  of(size: number): number | undefined {
    let [nearest, below, above]: [number, number | undefined, number] = [0, undefined, Infinity];
    for (const [known, { cost }] of this.#known) {
      if (known >= size) above = Math.min(above, cost);
      else if (known > nearest) [nearest, below] = [known, cost];
    }
    return above < Infinity ? above : below;
  }
}

/** How often guesses were right, one after the other; of those long ago less and less. */
export class Acceptance {
  #right: number;
  #tried: number;

  /** Begins with what is known of other texts. */
  constructor(share: number = guessing.firstShare) {
    this.#right = share * guessing.firstTrials;
    this.#tried = guessing.firstTrials;
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

  /** It pays: nothing is left of its rest. */
  end(): void {
    this.#last = this.#left = 0;
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

  /** A token is made without it; true if it is tried again. */
  isOver(): boolean {
    if (this.#last === 0) this.#left = this.#last = guessing.firstRest;
    if (--this.#left > 0) return false;
    this.#left = this.#last = Math.min(2 * this.#last, guessing.mostRest);
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
    let [best, bestRate] = [0, guessing.margin / alone];
    let [tokens, chance] = [1, 1];
    for (let count = 1; count <= this.#most; count++) {
      chance *= share;
      tokens += chance;
      const rate = tokens / ((step.of(texts * (1 + count)) ?? alone) + count * (draft ?? 0));
      if (rate > bestRate) [best, bestRate] = [count, rate];
    }
    if (best === 0) return this.#rest.isOver() ? Math.min(this.#most, guessing.probe) : 0;
    this.#rest.end();
    return best;
  }
}
