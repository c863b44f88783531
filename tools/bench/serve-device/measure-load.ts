/** One turn of one teller under one load, and its figures. */
import type { Answered } from "../serve/client.js";
import { figuresOf } from "../serve/figures.js";
import { type DeviceLoad, tokensBehindLong } from "./loads.js";
import type { Teller } from "./teller.js";

/** What is told of a load; null where it is not asked. Times are milliseconds. */
export interface LoadFigures {
  /** From asking to the first token: of many texts the median, beside a stream that of the long prompt. */
  readonly firstToken: number | null;
  /** For each token after the first: of many texts the median, of a step what all texts together take. */
  readonly token: number | null;
  /** New tokens a second of all texts, prompts counted. */
  readonly tokensPerSecond: number | null;
  /** The longest time that the stream stood still while the long prompt was read. */
  readonly longestGap: number | null;
}

/** A turn. */
export interface Turn {
  readonly figures: LoadFigures;
  readonly errors: number;
  readonly firstError: string | null;
}

/** Pieces that a stream has had when the long prompt is sent. */
const piecesBefore = 4;

/** Has a load done once; `prompt` makes one of so many tokens that nobody has seen. */
export async function measureLoad(
  teller: Teller,
  load: DeviceLoad,
  prompt: (length: number) => readonly number[],
): Promise<Turn> {
  const prompts = (count: number): (readonly number[])[] => Array.from({ length: count }, () => prompt(load.prompt));
  switch (load.kind) {
    case "one":
      return turnOf([await teller.stream(prompt(load.prompt), load.tokens)], ({ ttft, tpot }) => ({
        firstToken: ttft.median,
        token: tpot.median,
      }));
    case "many": {
      const asked = prompts(load.clients);
      return turnOf(await teller.together(asked, load.tokens), ({ ttft, tpot, tokensPerSecond }) => ({
        firstToken: ttft.median,
        token: tpot.median,
        tokensPerSecond,
      }));
    }
    case "beside":
      return besideTurn(teller, load, prompt);
    case "step": {
      const answers = await teller.together(prompts(load.texts), load.tokens);
      return turnOf(answers, () => ({ token: stepTime(answers, load.tokens) }));
    }
    default:
      return load satisfies never;
  }
}

/** A turn from its answers. They were asked for at once: the last one ends it. */
function turnOf(
  answers: readonly Answered[],
  figures: (of: ReturnType<typeof figuresOf>) => Partial<LoadFigures>,
): Turn {
  const seconds = Math.max(...answers.map(({ milliseconds }) => milliseconds)) / 1000;
  const of = figuresOf({ answers, seconds });
  const none = { firstToken: null, token: null, tokensPerSecond: null, longestGap: null };
  return {
    figures: of.errors > 0 ? none : { ...none, ...figures(of) },
    errors: of.errors,
    firstError: of.firstError,
  };
}

/** Milliseconds a step, from when all texts have their first token. */
function stepTime(answers: readonly Answered[], tokens: number): number {
  const begin = Math.max(...answers.map(({ pieces }) => pieces[0]));
  return (Math.max(...answers.map(({ pieces }) => pieces.at(-1)!)) - begin) / (tokens - 1);
}

async function besideTurn(
  teller: Teller,
  { prompt: length, tokens, long }: DeviceLoad & { readonly kind: "beside" },
  prompt: (length: number) => readonly number[],
): Promise<Turn> {
  const [short, other] = [prompt(length), prompt(long)];
  const began = performance.now();
  let sentAt = 0;
  let asked: Promise<Answered> | undefined;
  const ask = (): void => {
    sentAt = performance.now() - began;
    asked = teller.stream(other, tokensBehindLong);
  };
  const stream = await teller.stream(short, tokens, (count) => {
    if (count >= piecesBefore && asked === undefined) ask();
  });
  // A stream that fails before has no pieces to begin behind.
  if (asked === undefined) return turnOf([stream], () => ({}));
  const answer = await asked;
  return turnOf([stream, answer], () => ({
    firstToken: answer.pieces[0],
    token: (stream.pieces.at(-1)! - stream.pieces[0]) / (stream.newTokens - 1),
    longestGap: longestGap(stream.pieces, sentAt, sentAt + answer.pieces[0]),
  }));
}

const gaps = (pieces: readonly number[]): number[] => pieces.slice(1).map((time, at) => time - pieces[at]);

/** The longest time between two pieces of which some lies between two moments. */
export function longestGap(pieces: readonly number[], from: number, to: number): number {
  return Math.max(0, ...gaps(pieces).filter((_, at) => pieces[at + 1] > from && pieces[at] < to));
}
