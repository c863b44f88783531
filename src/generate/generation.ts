/** One text in the making: an async iterable of tokens, and a summary of what it took. The decode loop is here. */
import { InsituError } from "../base/error.js";
import type { Logits } from "../cache/logits.js";
import type { Context, ContextBytes } from "./context.js";
import { NgramLookup } from "./lookup.js";
import type { Generating } from "./options.js";
import { pause } from "./pause.js";
import { likeliestTokens, logSumExp, Sampler } from "./sampling.js";
import { StopStrings, TextStream, type TokenDecoder } from "./text-stream.js";

/** A token of the text. */
export interface GeneratedToken {
  readonly token: number;
  /** The text that became certain with it: none while a character or a stop string is unfinished. */
  readonly text: string;
  /** Its log-probability in the model's own distribution, where asked for. */
  readonly logprob?: number;
  /** The likeliest tokens at this place, where asked for. */
  readonly top?: readonly { readonly token: number; readonly logprob: number }[];
}

/** Why a text ended: the model's end token, a stop string, the most tokens, a full context, or it did not. */
export type FinishReason = "end" | "stop" | "length" | "context" | "unfinished";

/** What a generation took. */
export interface GenerationSummary {
  readonly promptTokens: number;
  /** Tokens of the prompt that were in the caches already. */
  readonly reusedTokens: number;
  readonly newTokens: number;
  readonly finishReason: FinishReason;
  readonly firstTokenMilliseconds: number;
  readonly milliseconds: number;
  /** Of the tokens after the first. */
  readonly tokensPerSecond: number;
  /** Guesses that were checked and that were right, where the generation speculates. */
  readonly guessedTokens: number;
  readonly rightGuesses: number;
  readonly seed: number;
  readonly stateBytes: number;
  /** Cache bytes that were written in place. */
  readonly writtenBytes: number;
  /** Cache bytes that had to be moved: 0 where all is in place. */
  readonly movedBytes: number;
  /** What a runtime that copies its caches would have moved. */
  readonly copyingBytes: number;
}

/** A context, and how many tokens of the prompt it has read. */
export interface TakenContext {
  readonly context: Context;
  readonly reused: number;
}

/** Where a generation gets its context, and gives it back. */
export interface ContextSource {
  readonly decoder: TokenDecoder;
  take(prompt: readonly number[]): TakenContext | Promise<TakenContext>;
  give(context: Context): void;
}

/** A text in the making. It is made while it is iterated, and iterated once. */
export class Generation implements AsyncIterable<GeneratedToken> {
  readonly #source: ContextSource;
  readonly #prompt: readonly number[];
  readonly #options: Generating;
  #started = 0;
  #firstToken = 0;
  #lastToken = 0;
  #newTokens = 0;
  #reused = 0;
  #guessed = 0;
  #right = 0;
  #text = "";
  #finish: FinishReason = "unfinished";
  #bytes: ContextBytes = { state: 0, written: 0, moved: 0, copying: 0 };

  constructor(source: ContextSource, prompt: readonly number[], options: Generating) {
    this.#source = source;
    this.#prompt = prompt;
    this.#options = options;
  }

  /** What it took so far. */
  get summary(): GenerationSummary {
    const decoding = this.#lastToken - this.#firstToken;
    return {
      promptTokens: this.#prompt.length,
      reusedTokens: this.#reused,
      newTokens: this.#newTokens,
      finishReason: this.#finish,
      firstTokenMilliseconds: this.#newTokens === 0 ? 0 : this.#firstToken - this.#started,
      milliseconds: this.#newTokens === 0 ? 0 : this.#lastToken - this.#started,
      tokensPerSecond: decoding > 0 ? ((this.#newTokens - 1) / decoding) * 1000 : 0,
      guessedTokens: this.#guessed,
      rightGuesses: this.#right,
      seed: this.#options.sampling.seed,
      stateBytes: this.#bytes.state,
      writtenBytes: this.#bytes.written,
      movedBytes: this.#bytes.moved,
      copyingBytes: this.#bytes.copying,
    };
  }

  /** The text so far. */
  get textSoFar(): string {
    return this.#text;
  }

  /** Makes the whole text. */
  async text(): Promise<string> {
    for await (const _ of this);
    return this.#text;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<GeneratedToken, void, undefined> {
    if (this.#started > 0)
      throw new InsituError("invalid-argument", "a generation can be iterated once; ask for another one");
    this.#started = performance.now();
    await this.#check();
    if (this.#options.maxTokens === 0) {
      this.#finish = "length";
      return;
    }
    const { context, reused } = await this.#source.take(this.#prompt);
    try {
      const before = context.bytes;
      const note = (): void => void (this.#bytes = differenceOf(context.bytes, before));
      this.#reused = reused;
      try {
        for await (const token of this.#tokens(context)) {
          note();
          this.#text += token.text;
          yield token;
        }
      } finally {
        note();
      }
    } finally {
      this.#source.give(context);
    }
  }

  async *#tokens(context: Context): AsyncGenerator<GeneratedToken, void, undefined> {
    const { sampling, speculate, stop, maxTokens = Infinity } = this.#options;
    const prompt = this.#prompt;
    const sampler = new Sampler(sampling, prompt);
    const stream = new TextStream(this.#source.decoder, prompt);
    const stops = new StopStrings(stop);
    const lookup = speculate && new NgramLookup(speculate, prompt);
    let logits = await context.extend(prompt.slice(this.#reused), () => this.#check());
    /** Tokens that were tried out, and how many of them are still to be confirmed. */
    let draft: readonly number[] = [];
    for (let open = 0; ;) {
      const token = sampler.choose(logits.at(open));
      if (this.#options.endTokens.has(token)) {
        this.#finish = "end";
        const text = this.#rest(stops, stream);
        drop(context, open);
        if (text !== "") yield { token, text, ...this.#described(logits, open, token) };
        return;
      }
      this.#note();
      sampler.accept(token);
      lookup?.push(token);
      const confirmed = open > 0 && draft[draft.length - open] === token;
      if (!confirmed) drop(context, open);
      if (confirmed) this.#right++;
      const remaining = maxTokens - this.#newTokens;
      const room = confirmed ? open : context.room;
      const piece = stops.push(stream.push(token));
      if (piece.stopped) this.#finish = "stop";
      else if (remaining <= 0) this.#finish = "length";
      else if (room === 0 && this.#options.whenFull !== "slide") this.#finish = "context";
      const finished = this.#finish !== "unfinished";
      const text = finished && !piece.stopped ? piece.text + this.#rest(stops, stream) : piece.text;
      const described = { token, text, ...this.#described(logits, open, token) };
      if (finished) {
        if (confirmed) drop(context, open - 1);
        yield described;
        if (this.#finish === "context" && this.#options.whenFull === "error") throw contextFull(context.capacity);
        return;
      }
      yield described;
      await this.#check();
      if (confirmed) open--;
      else {
        const guess = lookup?.guess().slice(0, Math.max(0, Math.min(remaining, context.room) - 1)) ?? [];
        draft = guess;
        open = guess.length;
        this.#guessed += guess.length;
        logits = guess.length === 0 ? await context.extend([token]) : await context.tryOut([token, ...guess]);
      }
    }
  }

  #note(): void {
    this.#newTokens++;
    this.#lastToken = performance.now();
    if (this.#newTokens === 1) this.#firstToken = this.#lastToken;
  }

  #rest(stops: StopStrings, stream: TextStream): string {
    const { text, stopped } = stops.push(stream.end());
    return stopped ? text : text + stops.end();
  }

  #described(logits: Logits, open: number, token: number): Pick<GeneratedToken, "logprob" | "top"> {
    const { logprobs } = this.#options;
    if (logprobs === undefined) return {};
    const row = logits.at(open);
    const logprob = row[token] - logSumExp(row);
    return logprobs === 0 ? { logprob } : { logprob, top: likeliestTokens(row, logprobs) };
  }

  /** Lets events be served, and throws if the caller no longer wants the text. */
  async #check(): Promise<void> {
    await pause();
    this.#options.signal?.throwIfAborted();
  }
}

/** Takes back tokens that were tried out in vain. */
function drop(context: Context, count: number): void {
  if (count > 0 && !context.rewind(context.tokens.length - count))
    throw new InsituError("invalid-argument", "the model keeps a state that cannot go back: it cannot speculate");
}

/** The error of whenFull: "error", and of a prompt that does not fit. */
export const contextFull = (capacity: number): InsituError =>
  new InsituError(
    "context-full",
    `the context of ${capacity} tokens is full; ask for a longer one, for fewer tokens, or for whenFull: "slide"`,
  );

const differenceOf = (now: ContextBytes, before: ContextBytes): ContextBytes => ({
  state: now.state,
  written: now.written - before.written,
  moved: now.moved - before.moved,
  copying: now.copying - before.copying,
});
