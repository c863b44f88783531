/** Beam search: the likeliest texts as a whole, each candidate on its own fork of the caches. */
import type { Context } from "./context.js";
import { contextFull, stillWanted } from "./ending.js";
import type { Generating } from "./options.js";
import { likeliestTokens } from "./sampling.js";

/** One result of a beam search. */
export interface Beam {
  /** The new tokens. */
  readonly tokens: readonly number[];
  /** The sum of log-probabilities, divided by the length to the power of the length penalty. */
  readonly score: number;
  /** True if the model ended the text itself. */
  readonly ended: boolean;
}

/** How wide and how long a search goes. */
export interface BeamOptions {
  /** Texts that are followed at a time. */
  readonly beams: number;
  /** Above 0 favours longer texts. */
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
    open = [{ context: context.fork(), tokens: [], sum: 0, logits: new Float32Array() }];
    open[0].logits = (await open[0].context.extend([last])).at(0).slice();
    const { endTokens, minTokens } = options;
    for (let length = 1; length <= most && open.length > 0; length++) {
      await stillWanted(options);
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
      open = decided ? close(open) : await advance(open, going, length < most);
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
  open: readonly Candidate[],
  going: readonly { readonly from: Candidate; readonly token: number; readonly sum: number }[],
  more: boolean,
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
    for (const candidate of next) {
      if (candidate.context.room === 0) throw contextFull(candidate.context.capacity);
      candidate.logits = (await candidate.context.extend([candidate.tokens.at(-1)!])).at(0).slice();
    }
    return next;
  } catch (error) {
    close(next);
    throw error;
  }
}

/** Lets go of contexts; none are left. */
function close(open: Candidate[]): Candidate[] {
  for (const { context } of open.splice(0)) context.release();
  return [];
}
