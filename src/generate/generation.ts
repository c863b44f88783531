/** One text in the making: an async iterable of tokens, and a summary of what it took. The engine makes it while it is iterated. */
import { InsituError } from "../base/error.js";
import type { ContextBytes } from "../engine/context.js";
import { contextFull } from "../engine/ending.js";
import { pause } from "../engine/pause.js";
import { type PulledToken, PulledText } from "../engine/pulled-text.js";
import type { TextEnd } from "../engine/text-ask.js";
import type { TokenDecoder } from "../engine/text-stream.js";
import type { TokenEngine } from "../engine/token-engine.js";
import type { ContextSource, TakenContext } from "./context-pool.js";
import type { Generating } from "./options.js";
import { textBytes, textsOf } from "./text-bytes.js";

/** Why a completion ended: an end token ("end"), a stop string ("stop"), `maxTokens` ("length"), a full context ("context"), or not yet ("unfinished"). */
export type FinishReason = "end" | "stop" | "length" | "context" | "unfinished";

/** The same as the engine says it. */
export const finishReasons: Readonly<Record<TextEnd, FinishReason>> = {
  "end-token": "end",
  stopped: "stop",
  "max-tokens": "length",
  "context-full": "context",
};

/** One generated token, with the text that it adds. */
export interface GeneratedToken {
  /** The token's number in the vocabulary. */
  readonly token: number;
  /** The text that this token adds. Empty while a character or a possible stop string is incomplete. */
  readonly text: string;
  /** The token's log-probability in the model's own distribution, with the option `logprobs`. */
  readonly logprob?: number | undefined;
  /** The most likely tokens at this position, with the option `logprobs`. */
  readonly top?: readonly { readonly token: number; readonly logprob: number }[] | undefined;
  /** The stop string that ended the text with this token. */
  readonly stop?: string | undefined;
}

/** Token counts, times and cache bytes of a generation. */
export interface GenerationSummary {
  /** Tokens in the prompt. */
  readonly promptTokens: number;
  /** Prompt tokens that came from the prefix cache and were not read again. */
  readonly reusedTokens: number;
  /** Tokens generated. */
  readonly newTokens: number;
  /** Why the completion ended; "unfinished" until it does. */
  readonly finishReason: FinishReason;
  /** Time to the first token, in milliseconds. */
  readonly firstTokenMilliseconds: number;
  /** Time to the latest token, in milliseconds. */
  readonly milliseconds: number;
  /** Decoding speed: tokens per second after the first token. */
  readonly tokensPerSecond: number;
  /** Speculative decoding: how many guesses were checked. */
  readonly guessedTokens: number;
  /** Speculative decoding: how many guesses were right. */
  readonly rightGuesses: number;
  /** Speculative decoding: how many runs checked guesses; each other run made one token. */
  readonly guessedRuns: number;
  /** The most tokens that a GPU was working on at a time, with sampling on the device; 0 otherwise. */
  readonly tokensInFlight: number;
  /** Tokens that the GPU generated past the end of the text, and that were thrown away. */
  readonly discardedTokens: number;
  /** The seed that was used, also if none was given. */
  readonly seed: number;
  /** Size of the KV cache, in bytes. */
  readonly stateBytes: number;
  /** Cache bytes written in place. */
  readonly writtenBytes: number;
  /** Cache bytes that had to be copied; 0 if everything was in place. */
  readonly movedBytes: number;
  /** Cache bytes that a runtime without in-place updates would have copied. */
  readonly copyingBytes: number;
}

/** What texts are made with. */
export interface Maker {
  readonly engine: TokenEngine;
  /** What makes text of tokens. */
  readonly decoder: TokenDecoder;
}

/** A completion that is generated while you iterate over it, or with `text()`. It can be iterated once. */
export class Generation implements AsyncIterable<GeneratedToken> {
  readonly #maker: Maker;
  readonly #source: ContextSource;
  readonly #prompt: readonly number[];
  readonly #options: Generating;
  #started = 0;
  #firstToken = 0;
  #lastToken = 0;
  #newTokens = 0;
  #reused = 0;
  #made: PulledText | undefined;
  #text = "";
  #finish: FinishReason = "unfinished";
  /** What the caches came to: asked while the text is made, and what was noted last after that. */
  #bytes = (): ContextBytes => ({ state: 0, written: 0, moved: 0, copying: 0 });
  #discarded = 0;

  constructor(maker: Maker, source: ContextSource, prompt: readonly number[], options: Generating) {
    this.#maker = maker;
    this.#source = source;
    this.#prompt = prompt;
    this.#options = options;
  }

  /** Token counts, times and cache bytes of this generation so far. */
  get summary(): GenerationSummary {
    const decoding = this.#lastToken - this.#firstToken;
    const { mostAhead = 0, guessed = 0, right = 0, checked = 0 } = this.#made?.text.figures ?? {};
    const bytes = this.#bytes();
    return {
      promptTokens: this.#prompt.length,
      reusedTokens: this.#reused,
      newTokens: this.#newTokens,
      finishReason: this.#finish,
      firstTokenMilliseconds: this.#newTokens === 0 ? 0 : this.#firstToken - this.#started,
      milliseconds: this.#newTokens === 0 ? 0 : this.#lastToken - this.#started,
      tokensPerSecond: decoding > 0 ? ((this.#newTokens - 1) / decoding) * 1000 : 0,
      guessedTokens: guessed,
      rightGuesses: right,
      guessedRuns: checked,
      tokensInFlight: mostAhead,
      discardedTokens: this.#discarded,
      seed: this.#options.sampling.seed,
      stateBytes: bytes.state,
      writtenBytes: bytes.written,
      movedBytes: bytes.moved,
      copyingBytes: bytes.copying,
    };
  }

  /** The text so far. */
  get textSoFar(): string {
    return this.#text;
  }

  /** Generates the whole text and returns it. */
  async text(): Promise<string> {
    for await (const _ of this);
    return this.#text;
  }

  /** The text as a stream of bytes, for a `Response`. It is generated while the stream is read. */
  toReadableStream(): ReadableStream<Uint8Array> {
    return textBytes(textsOf(this));
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
    const before = context.bytes;
    this.#bytes = () => differenceOf(context.bytes, before);
    this.#reused = reused;
    try {
      const { engine, decoder } = this.#maker;
      const ask = { ...this.#options, prompt: this.#prompt, constraint: constraint?.rule, decoder };
      const made = new PulledText(engine, ask, context, () => this.#options.signal?.throwIfAborted());
      this.#made = made;
      try {
        for (let next = await made.next(); next !== undefined; next = await made.next()) {
          if (this.#hears(next)) yield next.made;
          if (next.end === "context-full" && this.#options.whenFull === "error") throw contextFull(context.capacity);
          this.#options.signal?.throwIfAborted();
        }
      } finally {
        this.#discarded = made.discarded;
        await made.leave();
      }
    } finally {
      const bytes = this.#bytes();
      this.#bytes = () => bytes;
      constraint?.release();
      this.#source.give(context);
    }
  }

  /** Notes what came; true where it is handed out. */
  #hears({ made, isToken, end }: PulledToken): boolean {
    if (end !== undefined) this.#finish = finishReasons[end];
    this.#text += made.text;
    if (isToken) {
      this.#newTokens++;
      this.#lastToken = performance.now();
      if (this.#newTokens === 1) this.#firstToken = this.#lastToken;
    }
    return isToken || made.text !== "";
  }
}

/** True if no token is wanted: the text has ended before it began. */
export const wantsNothing = ({ maxTokens }: Generating): boolean => maxTokens === 0;

/** Lets events be served, and throws if the caller no longer wants the text. */
export async function stillWanted({ signal }: Generating): Promise<void> {
  await pause();
  signal?.throwIfAborted();
}

const differenceOf = (now: ContextBytes, before: ContextBytes): ContextBytes => ({
  state: now.state,
  written: now.written - before.written,
  moved: now.moved - before.moved,
  copying: now.copying - before.copying,
});
