/** Beam search: the likeliest texts as a whole, each candidate on its own fork of the caches. */
import type { Context } from "../engine/context.js";
import { contextFull } from "../engine/ending.js";
import { readTokens } from "../engine/pulled-text.js";
import { likeliestTokens } from "#insitu/choice/log-probability.js";
import type { TokenEngine } from "../engine/token-engine.js";
import type { Generating } from "./options.js";

/** One result of a beam search. */
export interface Beam {
  /** The new tokens. */
  readonly tokens: readonly number[];
  /** The sum of log-probabilities, divided by the length to the power of the length penalty. */
  readonly score: number;
  /** True if the model ended the completion itself. */
  readonly ended: boolean;
}

/** Options of `beamSearch`. */
export interface BeamOptions {
  /**
   * How many candidates are kept at a time.
   * @default 4
   */
  readonly beams: number;
  /**
   * Above 0, longer completions score better.
   * @default 1
   */
  readonly lengthPenalty: number;
}

/** A text that is still searched on. */
interface Candidate {
  readonly context: Context;
  readonly tokens: readonly number[];
  readonly sum: number;
  logits: Float32Array;
}

/** The best texts after a prompt, best first. `context` must have read all of the prompt but its last token; it is given back. */
export async function beamSearch(
  engine: TokenEngine,
  context: Context,
  last: number,
  { beams, lengthPenalty }: BeamOptions,
  options: Generating,
): Promise<Beam[]> {
  const most = options.maxTokens ?? context.room;
  const scoreOf = (sum: number, length: number): number => sum / Math.max(1, length) ** lengthPenalty;
  const finished: Beam[] = [];
  let open: Candidate[] = [];
  try {
    if (context.room === 0) throw contextFull(context.capacity);
    const stillWanted = (): void => options.signal?.throwIfAborted();
    open = [{ context: context.fork(), tokens: [], sum: 0, logits: new Float32Array() }];
    await readLast(engine, open, () => last, stillWanted);
    const { endTokens, minTokens } = options;
    for (let length = 1; length <= most && open.length > 0; length++) {
      stillWanted();
      // Twice as many as there are beams: half of them may end here.
      const next = open
        .flatMap((from) =>
          likeliestTokens(from.logits, 2 * beams + (length > minTokens ? 0 : endTokens.size))
            .filter(({ token }) => length > minTokens || !endTokens.has(token))
            .map(({ token, logprob }) => ({ from, token, sum: from.sum + logprob })),
        )
        .sort((a, b) => b.sum - a.sum)
        .slice(0, 2 * beams);
      for (const { from, token, sum } of next)
        if (endTokens.has(token)) finished.push({ tokens: from.tokens, score: scoreOf(sum, length), ended: true });
      const going = next.filter(({ token }) => !endTokens.has(token)).slice(0, beams);
      const best = scoreOf(going[0]?.sum ?? -Infinity, length);
      finished.sort((a, b) => b.score - a.score).splice(beams);
      const decided = finished.length === beams && finished[beams - 1].score >= best;
      open = decided ? close(open) : await advance(engine, open, going, length < most, stillWanted);
      if (length === most)
        finished.push(...open.map(({ tokens, sum }) => ({ tokens, score: scoreOf(sum, tokens.length), ended: false })));
    }
    return finished.sort((a, b) => b.score - a.score).slice(0, beams);
  } finally {
    close(open);
    context.release();
  }
}

/** The candidates of the next round. A context with several successors is forked, one with none is let go of. */
async function advance(
  engine: TokenEngine,
  open: readonly Candidate[],
  going: readonly { readonly from: Candidate; readonly token: number; readonly sum: number }[],
  more: boolean,
  stillWanted: () => void,
): Promise<Candidate[]> {
  const successors = new Map(open.map((candidate) => [candidate, going.filter(({ from }) => from === candidate)]));
  const next: Candidate[] = [];
  try {
    for (const [candidate, children] of successors) {
      if (children.length === 0) candidate.context.release();
      children.forEach(({ token, sum }, index) => {
        const context = index === children.length - 1 ? candidate.context : candidate.context.fork();
        next.push({ context, tokens: [...candidate.tokens, token], sum, logits: new Float32Array() });
      });
    }
    if (!more) return next;
    for (const { context } of next) if (context.room === 0) throw contextFull(context.capacity);
    await readLast(engine, next, ({ tokens }) => tokens.at(-1)!, stillWanted);
    return next;
  } catch (error) {
    close(next);
    throw error;
  }
}

/** Reads a token of each candidate in one step; the logits after it are the candidate's. */
async function readLast(
  engine: TokenEngine,
  candidates: readonly Candidate[],
  lastOf: (candidate: Candidate) => number,
  stillWanted: () => void,
): Promise<void> {
  const parts = candidates.map((candidate) => ({ context: candidate.context, tokens: [lastOf(candidate)] }));
  const logits = await readTokens(engine, parts, true, stillWanted);
  for (const [at, candidate] of candidates.entries()) candidate.logits = logits[at]!;
}

/** Lets go of contexts; none are left. */
function close(open: Candidate[]): Candidate[] {
  for (const { context } of open.splice(0)) context.release();
  return [];
}
