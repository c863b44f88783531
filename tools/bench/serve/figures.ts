/** Answers → figures: what `vllm bench serve` reports, under the same names. */
import type { Driven } from "./drive.js";

/** A time in milliseconds over many requests, or tokens. */
interface Spread {
  readonly mean: number;
  readonly median: number;
  readonly p99: number;
}

/** What a server did at one pace. */
export interface ServeFigures {
  readonly requests: number;
  readonly errors: number;
  /** What the first error said. */
  readonly firstError: string | null;
  readonly seconds: number;
  readonly requestsPerSecond: number;
  /** New tokens. */
  readonly tokensPerSecond: number;
  /** Requests a second whose first token came in time, and the others after it. */
  readonly goodput: number;
  /** Of the prompts' tokens, the share that was not read again. */
  readonly reusedShare: number;
  /** From the request to its first token. */
  readonly ttft: Spread;
  /** A request's time for each token after the first. */
  readonly tpot: Spread;
  /** From one piece of text to the next. */
  readonly itl: Spread;
}

/** What goodput asks of a request, in milliseconds. */
export const inTime = { ttft: 500, tpot: 50 } as const;

function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  const sum = sorted.reduce((all, value) => all + value, 0);
  return { mean: sorted.length === 0 ? 0 : sum / sorted.length, median: at(0.5), p99: at(0.99) };
}

/** The figures of what was measured. */
export function figuresOf({ answers, seconds }: Driven): ServeFigures {
  const good = answers.filter(({ error }) => error === undefined);
  const perToken = ({ pieces, newTokens }: (typeof good)[number]): number =>
    newTokens < 2 ? 0 : (pieces.at(-1)! - pieces[0]) / (newTokens - 1);
  const sum = (of: (each: (typeof good)[number]) => number): number => good.reduce((all, each) => all + of(each), 0);
  const prompts = sum(({ promptTokens }) => promptTokens);
  const timely = good.filter((each) => each.pieces[0] <= inTime.ttft && perToken(each) <= inTime.tpot);
  return {
    requests: answers.length,
    errors: answers.length - good.length,
    firstError: answers.find(({ error }) => error !== undefined)?.error ?? null,
    seconds,
    requestsPerSecond: good.length / seconds,
    tokensPerSecond: sum(({ newTokens }) => newTokens) / seconds,
    goodput: timely.length / seconds,
    reusedShare: prompts === 0 ? 0 : sum(({ cachedTokens }) => cachedTokens) / prompts,
    ttft: spread(good.map(({ pieces }) => pieces[0])),
    tpot: spread(good.filter(({ newTokens }) => newTokens > 1).map(perToken)),
    itl: spread(good.flatMap(({ pieces }) => pieces.slice(1).map((time, at) => time - pieces[at]))),
  };
}
