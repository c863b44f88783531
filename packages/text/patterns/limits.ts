/** What a tokenizer's regular expression may cost, and the error of one that costs more. */
import { InsituError } from "#insitu/base/error.js";

/** Characters of a pattern. */
export const mostPatternLength = 20_000;

/** Groups inside groups. */
export const mostNesting = 100;

/** Steps of the program that a pattern becomes; counted repetitions are written out. */
export const mostSteps = 5_000;

/** Steps that matching may take for each character of a text that is made tokens, and for any text at all. */
export const mostStepsPerCharacter = 1_000;
const stepsForAnyText = 1_000_000;

/** What handing out a match costs beside finding it. */
export const stepsPerMatch = 20;

/** Bits of the table that remembers which steps failed where. */
export const mostMemoryBits: number = 2 ** 31;

/** How many steps all patterns of a tokenizer may still take for one text. */
export class PatternWork {
  left: number = stepsForAnyText;

  /** A text of so many characters begins. */
  begin(characters: number): void {
    this.left = stepsForAnyText + mostStepsPerCharacter * characters;
  }
}

/** The error of a pattern that cannot be matched within bounds; shows its beginning. */
export function refusePattern(source: string, why: string): never {
  const shown = source.length > 60 ? `${source.slice(0, 60)}…` : source;
  throw new InsituError(
    "invalid-model",
    `the tokenizer's regular expression /${shown}/ ${why}; write it more simply in tokenizer.json`,
  );
}
