/**
 * Where a text may be cut without a pattern's matches becoming others: between two characters that no match takes one after the other, if the second
 * begins a match for certain. Told by the pattern's program alone, so that what is said holds for every text.
 */
import { kindOf, nowhere, type PatternProgram } from "./compile-pattern.js";

/** The cuts of one pattern. */
export class PatternCuts {
  readonly #program: PatternProgram;
  readonly #known = new Map<string, boolean>();
  /** False for patterns that look back, ask for a text's beginning, or match nothing at all. */
  readonly #canCut: boolean;

  constructor(program: PatternProgram) {
    this.#program = program;
    const { kinds, entry } = program;
    const looksBack = kinds.some((kind) => kind === kindOf.takeBack || kind === kindOf.begins);
    this.#canCut = !looksBack && this.#steps(entry).every((step) => kinds[step] === kindOf.take);
  }

  /** True if a text may be cut between these characters. */
  isBetween(before: number, after: number): boolean {
    if (!this.#canCut) return false;
    const key = `${before} ${after}`;
    let known = this.#known.get(key);
    if (known === undefined) {
      known = this.#begins(after) && this.#ends(before, after);
      this.#known.set(key, known);
    }
    return known;
  }

  /** True if the character alone is a match. */
  #begins(code: number): boolean {
    const { kinds } = this.#program;
    return this.#takes(this.#steps(this.#program.entry), code).some((step) =>
      this.#steps(this.#program.first[step]).some((next) => kinds[next] === kindOf.done),
    );
  }

  /** True if whatever takes the one character is over then, without a look at the other. */
  #ends(before: number, after: number): boolean {
    const { kinds, first, sets, second } = this.#program;
    const all = Array.from(kinds, (_, step) => step).filter((step) => kinds[step] === kindOf.take);
    return this.#takes(all, before).every((step) =>
      this.#steps(first[step]).every(
        (next) => kinds[next] === kindOf.done || (kinds[next] === kindOf.take && !sets[second[next]].has(after)),
      ),
    );
  }

  #takes(steps: readonly number[], code: number): readonly number[] {
    const { kinds, sets, second } = this.#program;
    return steps.filter((step) => kinds[step] === kindOf.take && sets[second[step]].has(code));
  }

  /** The steps that take or ask for something, or are the end, which a step leads to by itself. */
  #steps(from: number): readonly number[] {
    const { kinds, first, second } = this.#program;
    const seen = new Set<number>();
    const found: number[] = [];
    for (const open = [from]; open.length > 0;) {
      const step = open.pop()!;
      if (step === nowhere || seen.has(step)) continue;
      seen.add(step);
      if (kinds[step] === kindOf.fork) open.push(first[step], second[step]);
      else if (kinds[step] === kindOf.note || kinds[step] === kindOf.forget) open.push(first[step]);
      else if (kinds[step] !== kindOf.nowhere) found.push(step);
    }
    return found;
  }
}
