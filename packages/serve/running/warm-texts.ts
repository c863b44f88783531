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
 * The usual steps, each as the lengths of the prompts that are read at once, in the order in which most texts need them: first the largest, so that memory
 * in between grows no more and what is bound to it stays so; one text, as many tokens as one run reads, of one prompt and of several, numbers of
 * texts, shorter prompts, and last, for each number of sequences that runs are filled up to, the other numbers of tokens.
 */
export function usualSteps({ texts, tokens, context }: StepBounds): readonly (readonly number[])[] {
  const longest = Math.max(1, Math.min(tokens, context - 1));
  const longer = Math.min(2 * longest, context - 1);
  const prompts = usualCounts(longest - 1);
  const most = Math.min(texts, tokens, mostTexts);
  const several = usualCounts(most).slice(1);
  // Of each number of sequences that runs are filled up to one run that reads as many tokens as a run does.
  const largest = several.filter(
    (count) => count === several.at(-1) || usualSequences(count + 1) > usualSequences(count),
  );
  const stepOf = (count: number, length: number): readonly number[] =>
    new Array<number>(count).fill(Math.min(length, Math.floor(tokens / count), longest));
  /** Prompts of so many tokens in all, as many as a run has at most that is filled up like one of `count`. */
  const mixedOf = (count: number, all: number): readonly number[] =>
    Array.from({ length: count }, (_, at) => Math.floor((all + at) / count));
  const steps = [
    ...largest.slice(-1).map((count) => stepOf(count, longest)),
    [1],
    ...(longest > 1 ? [[longest]] : []),
    // The first part of a longer prompt: nothing is wanted behind it. By itself, and beside another text: the tables of long texts are wider.
    ...(longer > longest ? [[longer], ...(most > 1 ? [[longer, shortPrompt]] : [])] : []),
    ...largest.map((count) => stepOf(count, longest)),
    ...several.filter((count) => !largest.includes(count)).map((count) => stepOf(count, shortPrompt)),
    ...prompts
      .slice(1)
      .toReversed()
      .map((length) => [length]),
    ...largest
      .filter((count) => usualSequences(count) > usualSequences(1))
      .toReversed()
      .flatMap((count) =>
        usualCounts(Math.min(tokens, count * longest))
          .filter((all) => all > count)
          .map((all) => mixedOf(count, all)),
      ),
  ];
  const seen = new Set<string>();
  return steps.filter((step) => !seen.has(step.join()) && seen.add(step.join()));
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
