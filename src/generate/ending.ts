/**
 * How a text ends: at a token that ends it, at a stop string, after the most tokens, at a full context, or because nobody wants it any more.
 * Decided here alone, for single texts, samples, batches and beams. Runs no model and chooses no token.
 */
import { InsituError } from "../base/error.js";
import type { Generating } from "./options.js";
import { pause } from "./pause.js";
import { SentenceEnd } from "./sentence-end.js";
import { StopStrings, TextStream, type TokenDecoder } from "./text-stream.js";

/** Why a text ended: the model's end token, a stop string, the most tokens, a full context, or it did not. */
export type FinishReason = "end" | "stop" | "length" | "context" | "unfinished";

/** The part of a text's most tokens after which it may end at a sentence. */
const leastPart = 3 / 4;

/** What one token made of a text. */
interface Continued {
  /** The text that became certain with it. */
  readonly text: string;
  /** Why the text ended with it, where it did. A token that ends the text ("end") is no part of it. */
  readonly finish: FinishReason | undefined;
}

/** One text on its way to its end. */
export class Ending {
  readonly #options: Generating;
  readonly #stream: TextStream;
  readonly #stops: StopStrings;
  readonly #sentence = new SentenceEnd();
  #tokens = 0;
  #finish: FinishReason = "unfinished";

  constructor(decoder: TokenDecoder, prompt: readonly number[], options: Generating) {
    this.#options = options;
    this.#stream = new TextStream(decoder, prompt);
    this.#stops = new StopStrings(options.stop);
  }

  /** Why the text ended. */
  get finish(): FinishReason {
    return this.#finish;
  }

  /** Tokens that may still come. */
  get remaining(): number {
    return (this.#options.maxTokens ?? Infinity) - this.#tokens;
  }

  get #mayEndAtSentence(): boolean {
    const { endAtSentence, maxTokens = Infinity } = this.#options;
    return endAtSentence && this.#tokens >= leastPart * maxTokens;
  }

  /** Adds a token. `full` says that the context has no room to read it. */
  push(token: number, full: boolean): Continued {
    if (endsText(this.#options, token)) return this.#end("end", "");
    this.#tokens++;
    const { text, stopped } = this.#stops.push(this.#stream.push(token));
    if (stopped) {
      this.#finish = "stop";
      return { text, finish: "stop" };
    }
    const sentence = this.#sentence.push(text);
    if (sentence !== undefined && this.#mayEndAtSentence) {
      this.#finish = "length";
      return { text: sentence, finish: "length" };
    }
    if (this.remaining <= 0) return this.#end("length", text);
    if (full && this.#options.whenFull !== "slide") return this.#end("context", text);
    return { text, finish: undefined };
  }

  /** Throws for a text that ended for want of room where that is an error: asked once its last token was handed out. */
  requireRoom(capacity: number): void {
    if (this.#finish === "context" && this.#options.whenFull === "error") throw contextFull(capacity);
  }

  /** Ends the text with what was held back of it, as far as no stop string is in that. */
  #end(finish: FinishReason, before: string): Continued {
    this.#finish = finish;
    const { text, stopped } = this.#stops.push(this.#stream.end());
    return { text: before + text + (stopped ? "" : this.#stops.end()), finish };
  }
}

/** True for a token that ends a text: one of the model's own, or one that the caller named. */
export const endsText = ({ endTokens }: Generating, token: number): boolean => endTokens.has(token);

/** True if no token is wanted: the text has ended before it began. */
export const wantsNothing = ({ maxTokens }: Generating): boolean => maxTokens === 0;

/** Lets events be served, and throws if the caller no longer wants the text. */
export async function stillWanted({ signal }: Generating): Promise<void> {
  await pause();
  signal?.throwIfAborted();
}

/** The error of whenFull: "error", and of a prompt that does not fit. */
export const contextFull = (capacity: number): InsituError =>
  new InsituError(
    "context-full",
    `the context of ${capacity} tokens is full; ask for a longer one, for fewer tokens, or for whenFull: "slide"`,
  );
