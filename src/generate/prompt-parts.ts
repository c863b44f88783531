/**
 * In which parts a prompt is read. A run of so many tokens as never before needs a program of its own: on a processor that is little beside the
 * run, on a GPU many times as much. There, parts are of few lengths, so that prompts of any length are read by programs that are there.
 */

/** How prompts are read. */
export interface PromptReading {
  /** Tokens that are read in one run at most. */
  readonly chunk: number;
  /** True if parts are to be of few lengths. */
  readonly recurs?: boolean;
}

/** Longer parts are multiples of it. */
const grain = 64;

/** How many of `left` tokens the next run reads. */
export function nextPart(left: number, { chunk, recurs = false }: PromptReading): number {
  if (left >= chunk) return chunk;
  if (!recurs) return left;
  return left >= grain ? left - (left % grain) : shortPart(left);
}

/** The largest of 1, 2, 3, 4, 6, 8, 12, 16, 24, … that is not above a number. */
function shortPart(most: number): number {
  const power = 2 ** Math.floor(Math.log2(most));
  return power > 1 && most >= 1.5 * power ? 1.5 * power : power;
}

/** Some tokens of a prompt; zeros before its first one and behind its last. */
export const tokensFrom = (prompt: readonly number[], start: number, count: number): readonly number[] =>
  Array.from({ length: count }, (_, index) => prompt[start + index] ?? 0);
