/**
 * Warming up: the steps that servers usually run are run once before anybody asks, so that the first texts wait for no shader. They are texts like
 * others, on sequences of their own of which nothing is left: their blocks are free, and no prefix is known by them.
 */
import { usualCount, usualSequences } from "#insitu/cache/usual-count.js";
import type { Context } from "#insitu/engine/context.js";
import { MadeText } from "#insitu/engine/made-text.js";
import type { PagedRows } from "#insitu/engine/paged-rows.js";
import { readSampling } from "#insitu/choice/sampling.js";
import type { TokenEngine } from "#insitu/engine/token-engine.js";

/** What bounds the usual steps. */
interface StepBounds {
  /** Texts that run at a time. */
  readonly texts: number;
  /** Tokens that a step reads at most. */
  readonly tokens: number;
  /** Tokens of one text. */
  readonly context: number;
}

/** Texts of the largest step of one token each that is usual. */
const mostTexts = 64;

/** Tokens of prompts that are read beside each other. */
const shortPrompt = 5;

/**
 * The usual steps, each as the lengths of the prompts that are read at once, in the order in which most texts need them: one text, as many tokens as one
 * run reads, of one prompt and of several, then numbers of texts, and shorter prompts.
 */
export function usualSteps({ texts, tokens, context }: StepBounds): readonly (readonly number[])[] {
  const longest = Math.max(1, Math.min(tokens, context - 1));
  const prompts = usualCounts(longest - 1);
  const several = usualCounts(Math.min(texts, tokens, mostTexts)).slice(1);
  // Of each number of sequences one run that reads as many tokens as a run does.
  const largest = several.filter((count) => usualSequences(count + 1) > usualSequences(count));
  const stepOf = (count: number, most: number): readonly number[] =>
    new Array<number>(count).fill(Math.min(most, Math.floor(tokens / count), longest));
  return [
    [1],
    ...(longest > 1 ? [[longest]] : []),
    ...largest.map((count) => stepOf(count, longest)),
    ...several.filter((count) => !largest.includes(count)).map((count) => stepOf(count, shortPrompt)),
    ...prompts.slice(1).map((length) => [length]),
  ];
}

/** All numbers that recur up to this one. */
const usualCounts = (most: number): readonly number[] =>
  Array.from({ length: most }, (_, at) => at + 1).filter((count) => usualCount(count) === count);

let named = 0;

/** Tokens that are made in each step's wake: shapes that come faster one after the other are taken for ones that do not last, and get other shaders. */
export const warmTokens = 5;

/** Makes a few tokens behind prompts of these lengths, all at once. Rejects with what a text failed with. */
export async function warmStep(
  engine: TokenEngine,
  open: (salt: string) => Context,
  lengths: readonly number[],
): Promise<void> {
  let failure: Error | undefined;
  const listener = {
    token: () => undefined,
    ended() {},
    failed: (error: Error) => void (failure = error),
  };
  const sampling = readSampling({ temperature: 0, seed: 0 });
  const texts = lengths.map((length) => {
    const id = `warming up ${++named}`;
    const prompt = new Array<number>(length).fill(0);
    const ask = { prompt, maxTokens: warmTokens, tokensAtOnce: 1, endTokens: new Set<number>(), sampling };
    return new MadeText(ask, { id, tenant: "", priority: 0, salt: id }, open(id), listener, engine.layout);
  });
  try {
    for (const text of texts) engine.add(text);
    while (texts.some(({ isOver }) => !isOver)) if (!(await engine.advance())) break;
  } finally {
    for (const text of texts) await engine.quit(text);
    for (const { context } of texts) forget(context);
  }
  if (failure !== undefined) throw failure;
}

/** Gives blocks back that nobody is to find anything in. */
function forget(context: Context): void {
  const { sequence } = context.rows as PagedRows;
  sequence.overwrite(0, sequence.length);
  context.release();
}
