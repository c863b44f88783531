/**
 * How a text ends: at a token that ends it, at a stop string, where its grammar does, after the most tokens, at a full context, or because nobody
 * wants it any more. Decided here alone, for single texts, samples, batches, beams and servers. Runs no model and chooses no token.
 */
import { InsituError } from "../base/error.js";
import type { TokenConstraint } from "./constraint.js";
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

/** Where a text may end, as far as its caller and its model's way of chatting say so. */
export interface EndRules {
  readonly stop: readonly string[];
  /** Tokens before which no end token may come. */
  readonly minTokens: number;
  /** Tokens before which no stop string ends it. */
  readonly stopsFrom: number;
}

/**
 * The rules of a chat's answer. Without a template it is one paragraph, unless the caller says where it ends. It has something to be seen, unless the
 * caller says that it need not: an end token is no answer. The caller's own stop strings hold from the beginning on.
 */
export function chatRules(hasTemplate: boolean, stop: readonly string[] | undefined, minTokens?: number): EndRules {
  const isParagraph = !hasTemplate && stop === undefined;
  return {
    stop: isParagraph ? ["\n"] : (stop ?? []),
    minTokens: minTokens ?? 1,
    stopsFrom: minTokens ?? (isParagraph ? 1 : 0),
  };
}

/**
 * Whether a text may end: not before it has its least tokens and, where it must have some, anything but blanks; and not before its grammar does,
 * which decides alone once there is anything. A stop string ends it only where the text would be whole without it.
 */
export class TextEnds {
  readonly #rules: EndRules;
  readonly #constraint: TokenConstraint | undefined;
  readonly #stops: StopStrings;
  #tokens = 0;
  #isVisible = false;

  constructor(rules: EndRules, constraint: TokenConstraint | undefined) {
    this.#rules = rules;
    this.#constraint = constraint;
    this.#stops = new StopStrings(rules.stop, (before) => this.#mayStop(before));
  }

  /** True if an end token may come next. */
  get mayEnd(): boolean {
    return this.isOver || (this.hasLeast && this.#constraint?.mayEnd !== false);
  }

  /** True if the text has what it must have at least; its grammar may want more. */
  get hasLeast(): boolean {
    const { minTokens } = this.#rules;
    const least = this.#constraint === undefined ? minTokens : Math.min(minTokens, 1);
    return least === 0 || (this.#tokens >= least && this.#isVisible);
  }

  /** True once nothing may come but an end. */
  get isOver(): boolean {
    return this.#constraint?.terminated === true;
  }

  /** The text of one more token; what may be shown of it, and whether it ends there. */
  push(text: string): { readonly text: string; readonly stopped: boolean } {
    this.#tokens++;
    this.#isVisible ||= /\S/.test(text);
    return this.#stops.push(text);
  }

  /** The rest of a text that ended otherwise, as far as no stop string is in it. */
  end(rest: string): string {
    const { text, stopped } = this.#stops.push(rest);
    return text + (stopped ? "" : this.#stops.end());
  }

  #mayStop(before: string): boolean {
    const { stopsFrom } = this.#rules;
    const constraint = this.#constraint;
    if (constraint !== undefined) return constraint.allows?.(before) ?? constraint.terminated;
    return stopsFrom === 0 || (this.#tokens >= stopsFrom && /\S/.test(before));
  }
}

/** One text on its way to its end. */
export class Ending {
  readonly #options: Generating;
  readonly #stream: TextStream;
  readonly #constraint: TokenConstraint | undefined;
  readonly #ends: TextEnds;
  readonly #sentence = new SentenceEnd();
  #tokens = 0;
  #finish: FinishReason = "unfinished";

  constructor(decoder: TokenDecoder, prompt: readonly number[], options: Generating, constraint?: TokenConstraint) {
    this.#options = options;
    this.#stream = new TextStream(decoder, prompt);
    this.#constraint = constraint;
    this.#ends = new TextEnds(options, constraint);
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

  /** Tokens that may not come next, since they would end the text. A constraint rules out by itself what it does not have. */
  get barred(): ReadonlySet<number> | undefined {
    const isFree = this.#ends.hasLeast || this.#constraint?.mayEnd === false || this.#ends.isOver;
    return isFree ? undefined : this.#options.endTokens;
  }

  /** True for a token that ends the text here. */
  endsWith(token: number): boolean {
    return this.#options.endTokens.has(token) && this.#ends.mayEnd;
  }

  /** Adds a token, which the text's constraint has taken already unless it ends the text. `full` says that the context has no room to read it. */
  push(token: number, full: boolean, ends: boolean = this.endsWith(token)): Continued {
    if (ends) return this.#end("end", "");
    this.#tokens++;
    const { text, stopped } = this.#ends.push(this.#stream.push(token));
    if (stopped) {
      this.#finish = "stop";
      return { text, finish: "stop" };
    }
    if (this.#ends.isOver) return this.#end("end", text);
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
    return { text: before + this.#ends.end(this.#stream.end()), finish };
  }
}

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
