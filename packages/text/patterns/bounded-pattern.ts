/** A regular expression that is matched within a bound: in place of a RegExp wherever a text is matched, split or replaced. */
import { compilePattern, type PatternProgram } from "./compile-pattern.js";
import { mostStepsPerCharacter, PatternWork, refusePattern, stepsPerMatch } from "./limits.js";
import { PatternMatcher } from "./match-pattern.js";
import { PatternCuts } from "./pattern-cuts.js";
import { parsePattern } from "./parse-pattern.js";

/** A RegExp with the flag u whose matches take time that grows with the text, not faster. */
export class BoundedPattern extends RegExp {
  readonly #program: PatternProgram;
  readonly #work: PatternWork;
  #cuts: PatternCuts | undefined;
  /** The text that was matched last: what failed in it need not be tried again. */
  #matcher: PatternMatcher | undefined;

  /**
   * Throws where the pattern is one that cannot be bound. `work` is what its matches may cost. RegExp's own methods make copies with
   * other flags.
   */
  constructor(pattern: RegExp, from: PatternWork | string = new PatternWork()) {
    super(pattern, typeof from === "string" ? from : pattern.flags);
    if (pattern instanceof BoundedPattern) {
      this.#program = pattern.#program;
      this.#work = pattern.#work;
    } else {
      this.#program = compilePattern(this.source, parsePattern(this.source));
      this.#work = typeof from === "string" ? new PatternWork() : from;
    }
  }

  /** True if the matches of any text are those of its two parts where it is cut between these characters. */
  cutsBetween(before: number, after: number): boolean {
    this.#cuts ??= new PatternCuts(this.#program);
    return this.#cuts.isBetween(before, after);
  }

  override exec(text: string): RegExpExecArray | null {
    const stays = this.global || this.sticky;
    const last = this.sticky ? this.lastIndex : text.length;
    if (this.#matcher?.text !== text) this.#matcher = new PatternMatcher(this.#program, text, this.#work);
    for (let place = stays ? this.lastIndex : 0; place <= Math.min(last, text.length); place += widthAt(text, place)) {
      const slots = this.#matcher.matchAt(place);
      if (slots === undefined) continue;
      if (stays) this.lastIndex = slots[1];
      this.#work.left -= stepsPerMatch;
      const found = [text.slice(place, slots[1])] as string[] as RegExpExecArray;
      for (let at = 2; at < slots.length; at += 2)
        found.push((slots[at] < 0 ? undefined : text.slice(slots[at], slots[at + 1])) as string);
      found.index = place;
      found.input = text;
      return found;
    }
    this.lastIndex = 0;
    // A text that was searched to its end is done with.
    if (!this.sticky) this.#matcher = undefined;
    return null;
  }

  /** Puts a text in the place of every match, as it is: a dollar sign stands for itself. */
  override [Symbol.replace](text: string, replacement: string | ((match: string) => string)): string {
    if (typeof replacement !== "string") return super[Symbol.replace](text, replacement);
    return super[Symbol.replace](text, () => {
      // Each character that is put in is a step: a text cannot grow without bound.
      if ((this.#work.left -= replacement.length) < 0)
        refusePattern(this.source, `makes more than ${mostStepsPerCharacter} characters of each`);
      return replacement;
    });
  }
}

const widthAt = (text: string, place: number): number => ((text.codePointAt(place) ?? 0) > 0xffff ? 2 : 1);
