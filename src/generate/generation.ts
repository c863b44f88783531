/** One text in the making: an async iterable of tokens, and a summary of what it took. The decode loop is here. */
import { InsituError } from "../base/error.js";
import type { TokenConstraint } from "./constraint.js";
import type { Context, ContextBytes } from "./context.js";
import { Ending, type FinishReason, stillWanted, wantsNothing } from "./ending.js";
import { Flight, flightFor } from "./flight.js";
import { NgramLookup } from "./lookup.js";
import type { Generating } from "./options.js";
import { describeChoice, Sampler } from "./sampling.js";
import type { TokenDecoder } from "./text-stream.js";

/** A token of the text. */
export interface GeneratedToken {
  /** Its number in the vocabulary. */
  readonly token: number;
  /** The text that became certain with it: none while a character or a stop string is unfinished. */
  readonly text: string;
  /** Its log-probability in the model's own distribution, where asked for. */
  readonly logprob?: number;
  /** The likeliest tokens at this place, where asked for. */
  readonly top?: readonly { readonly token: number; readonly logprob: number }[];
}

/** What a generation took. */
export interface GenerationSummary {
  /** Tokens of the prompt. */
  readonly promptTokens: number;
  /** Tokens of the prompt that were in the caches already. */
  readonly reusedTokens: number;
  /** Tokens that were made. */
  readonly newTokens: number;
  /** Why the text ended; "unfinished" while it is made. */
  readonly finishReason: FinishReason;
  /** From the beginning to the first token. */
  readonly firstTokenMilliseconds: number;
  /** From the beginning to the latest token. */
  readonly milliseconds: number;
  /** Of the tokens after the first. */
  readonly tokensPerSecond: number;
  /** Guesses that were checked and that were right, where the generation speculates. */
  readonly guessedTokens: number;
  /** Those of them that were right. */
  readonly rightGuesses: number;
  /** Tokens that were under way at a time at most, drawn on the device; 0 where each came to the host, or was chosen there, before the next. */
  readonly tokensInFlight: number;
  /** Of them those that came after the text's end. */
  readonly discardedTokens: number;
  /** The seed, also where none was given. */
  readonly seed: number;
  /** Bytes of the caches. */
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
  /** What drew its tokens where the model runs, one after the other. */
  readonly #flights: Flight[] = [];
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
      tokensInFlight: Math.max(0, ...this.#flights.map(({ most }) => most)),
      discardedTokens: this.#flights.reduce((sum, { discarded }) => sum + discarded, 0),
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
    await stillWanted(this.#options);
    if (wantsNothing(this.#options)) {
      this.#finish = "length";
      return;
    }
    const constraint = await this.#options.constraint?.();
    let taken: TakenContext;
    try {
      taken = await this.#source.take(this.#prompt);
    } catch (error) {
      constraint?.release();
      throw error;
    }
    const { context, reused } = taken;
    try {
      const before = context.bytes;
      const note = (): void => void (this.#bytes = differenceOf(context.bytes, before));
      this.#reused = reused;
      try {
        const ending = new Ending(this.#source.decoder, this.#prompt, this.#options, constraint?.rule);
        const flight = this.#fly(context, []);
        for await (const token of flight === undefined
          ? this.#tokens(context, ending, constraint?.rule)
          : this.#drawn(context, ending, flight)) {
          note();
          this.#text += token.text;
          yield token;
        }
      } finally {
        note();
      }
    } finally {
      constraint?.release();
      this.#source.give(context);
    }
  }

  /** Chooses tokens by their logits, after those that were made; the last of these was not read. */
  async *#tokens(
    context: Context,
    ending: Ending,
    constraint: TokenConstraint | undefined,
    made: readonly number[] = [],
  ): AsyncGenerator<GeneratedToken, void, undefined> {
    const options = this.#options;
    const { sampling, speculate, logitBias } = options;
    const prompt = this.#prompt;
    const sampler = new Sampler(sampling, prompt, { bias: logitBias, constraint });
    sampler.resume(made);
    // A guess would have to be taken back from the constraint too.
    const lookup = constraint === undefined && speculate !== undefined ? new NgramLookup(speculate, prompt) : undefined;
    const unread = made.length === 0 ? prompt.slice(this.#reused) : made.slice(-1);
    let logits = await context.extend(unread, () => stillWanted(options));
    /** Tokens that were tried out, and how many of them are still to be confirmed. */
    let draft: readonly number[] = [];
    for (let open = 0; ;) {
      const row = logits.at(open);
      const token = sampler.choose(row, ending.barred);
      const ends = ending.endsWith(token);
      const confirmed = open > 0 && draft[draft.length - open] === token && !ends;
      if (!confirmed) drop(context, open);
      // Before it is asked whether the text has ended: where there is a constraint, that says so.
      if (!ends) sampler.accept(token);
      const { text, finish } = ending.push(token, !confirmed && context.room === 0, ends);
      const described = { token, text, ...describeChoice(row, token, options.logprobs) };
      if (ends) {
        this.#finish = "end";
        if (text !== "") yield described;
        return;
      }
      this.#note();
      lookup?.push(token);
      if (confirmed) this.#right++;
      if (finish !== undefined) {
        this.#finish = finish;
        if (confirmed) drop(context, open - 1);
        yield described;
        ending.requireRoom(context.capacity);
        return;
      }
      yield described;
      await stillWanted(options);
      if (confirmed) open--;
      else {
        const guess = lookup?.guess().slice(0, Math.max(0, Math.min(ending.remaining, context.guessRoom) - 1)) ?? [];
        draft = guess;
        open = guess.length;
        this.#guessed += guess.length;
        logits = guess.length === 0 ? await context.extend([token]) : await context.tryOut([token, ...guess]);
      }
    }
  }

  /** The tokens that the device draws, several of them under way. */
  async *#drawn(context: Context, ending: Ending, first: Flight): AsyncGenerator<GeneratedToken, void, undefined> {
    const options = this.#options;
    const check = (): Promise<void> => stillWanted(options);
    const made: number[] = [];
    let flight: Flight | undefined = first;
    try {
      await flight.begin(this.#prompt.slice(this.#reused), check);
      for (;;) {
        const drawn: number = await flight.next();
        const isBarred = ending.barred?.has(drawn) === true;
        // What a device draws it draws from all tokens.
        if (isBarred) flight.end();
        const token = isBarred ? await this.#chooseAgain(context, ending, made) : drawn;
        const { text, finish } = ending.push(token, context.tokens.length === context.capacity);
        if (finish !== undefined) this.#finish = finish;
        if (finish !== "end") this.#note();
        if (finish !== "end" || text !== "") yield { token, text };
        if (finish !== undefined) {
          ending.requireRoom(context.capacity);
          return;
        }
        made.push(token);
        if (!isBarred) flight.accept(token);
        else {
          flight = this.#fly(context, made);
          if (flight === undefined) return yield* this.#tokens(context, ending, undefined, made);
          await flight.begin([token], check);
        }
        // Waiting for a token serves events.
        options.signal?.throwIfAborted();
      }
    } finally {
      flight?.end();
    }
  }

  /** What draws tokens where the model runs, after those that were made. */
  #fly(context: Context, made: readonly number[]): Flight | undefined {
    const flight = flightFor(context, this.#prompt, this.#options, made);
    if (flight !== undefined) this.#flights.push(flight);
    return flight;
  }

  /** The token that the host chooses where one was drawn that may not come: after all that was made, which has been read. */
  async #chooseAgain(context: Context, ending: Ending, made: readonly number[]): Promise<number> {
    const last = context.tokens.at(-1)!;
    drop(context, 1);
    const logits = await context.extend([last]);
    const sampler = new Sampler(this.#options.sampling, this.#prompt);
    sampler.resume(made);
    return sampler.choose(logits.at(0), ending.barred);
  }

  #note(): void {
    this.#newTokens++;
    this.#lastToken = performance.now();
    if (this.#newTokens === 1) this.#firstToken = this.#lastToken;
  }
}

/** Takes back tokens that were tried out in vain. */
function drop(context: Context, count: number): void {
  if (count > 0 && !context.rewind(context.tokens.length - count))
    throw new InsituError("invalid-argument", "the model keeps a state that cannot go back to a token before");
}

const differenceOf = (now: ContextBytes, before: ContextBytes): ContextBytes => ({
  state: now.state,
  written: now.written - before.written,
  moved: now.moved - before.moved,
  copying: now.copying - before.copying,
});
