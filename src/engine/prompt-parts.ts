/**
 * In which parts a prompt is read. A run of as many tokens as never before needs a program of its own: on a processor that is little beside the
 * run, on a GPU many times as much. There, parts are of few lengths: what is left of a prompt is read together with some tokens before it, which
 * are read once more, and very short prompts are read token by token.
 */
import { checkpoints } from "./tuning.js";

/** How prompts are read. */
export interface PromptReading {
  /** Tokens that are read in one run at most. */
  readonly chunk: number;
  /** The same of prompts of which four chunks and more are left: they take long in any case. As `chunk` where left out. */
  readonly longChunk?: number | undefined;
  /** True if parts are to be of few lengths. */
  readonly recurs?: boolean;
}

/** A part: how many tokens it has, and how many of them were read before and are to be forgotten first. */
interface PromptPart {
  readonly count: number;
  readonly again: number;
}

/** Parts are of so many tokens, or of multiples of the last: below them kernels are made for each number. Of up to 8 each weight is read once. */
const [two, few, fine, coarse] = [2, 8, 16, 64];

/** The least length of a part that has room for so many tokens. */
const lengthFor = (tokens: number): number =>
  [two, few, fine].find((length) => tokens <= length) ?? Math.ceil(tokens / coarse) * coarse;

/** The greatest length of a part of up to so many tokens: powers of two, and one between each and the next. */
function usualLength(tokens: number): number {
  const power = 2 ** Math.floor(Math.log2(tokens));
  return tokens >= 1.5 * power ? 1.5 * power : power;
}

/** Tokens that one run reads at most, where so many are left. */
export const chunkFor = (left: number, { chunk, longChunk = chunk }: PromptReading): number =>
  left >= 4 * chunk ? longChunk : chunk;

/** The next part, where `left` tokens are to be read and `before` of those in front of them may be read again. */
export function nextPart(left: number, before: number, reading: PromptReading): PromptPart {
  const { recurs = false } = reading;
  const chunk = chunkFor(left, reading);
  const whole = (count: number): PromptPart => ({ count, again: 0 });
  if (left >= chunk) return whole(chunk);
  if (!recurs) return whole(left);
  if (left >= coarse) return whole(usualLength(left));
  if (left <= two) return whole(left);
  const count = lengthFor(left);
  if (count <= chunk && before >= count - left) return { count, again: count - left };
  return whole(left >= fine ? fine : 1);
}

/** Tokens of a part, so that it ends with a block of the text where it can: behind `before` tokens, where `left` are to be read and at most `count` now. */
export function blockPart(count: number, left: number, before: number): number {
  // The last token is read in any case: its logits are wanted.
  const most = count < left ? count : left - 1;
  const end = before + most;
  const whole = end - (end % checkpoints.block) - before;
  return whole > 0 ? whole : count;
}

/** The same for several prompts beside each other, of which the longest has `left` tokens left: tokens behind their ends are forgotten, where there is `room`. */
export function nextRows(left: number, room: number, { chunk, recurs = false }: PromptReading): number {
  if (left >= chunk || !recurs) return Math.min(left, chunk);
  const padded = Math.min(lengthFor(left), chunk);
  return padded <= room ? padded : left;
}
