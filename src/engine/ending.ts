/**
 * How a text ends: at a token that ends it, at a stop string, where its grammar does, after the most tokens, at a full context, or because nobody
 * wants it any more. Decided here alone, for every text that the engine makes. Runs no model and chooses no token.
 */
import { InsituError } from "../base/error.js";
import type { TokenConstraint } from "#insitu/choice/constraint.js";
import { SentenceEnd } from "./sentence-end.js";
import type { TextAsk, TextEnd } from "./text-ask.js";
import { StopStrings, TextStream } from "./text-stream.js";

/** The part of a text's most tokens after which it may end at a sentence. */
const leastPart = 3 / 4;

/** What one token made of a text. */
interface Continued {
  /** The text that became certain with it. */
  readonly text: string;
  /** Why the text ended with it, where it did. An end token is no part of it. */
  readonly end: TextEnd | undefined;
  /** The stop string that ended it. */
  readonly stop?: string;
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
class TextEnds {
  readonly #rules: EndRules;
  readonly #constraint: TokenConstraint | undefined;
  readonly #stops: StopStrings;
  #tokens = 0;
  #isVisible: boolean;

  /** `hasText`: what is not seen to be blank counts where there is no text. */
  constructor(rules: EndRules, constraint: TokenConstraint | undefined, hasText = true) {
    this.#rules = rules;
    this.#constraint = constraint;
    this.#isVisible = !hasText;
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
  push(text: string): ReturnType<StopStrings["push"]> {
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
  readonly #ask: TextAsk;
  #stream: TextStream | undefined;
  readonly #ends: TextEnds;
  readonly #sentence = new SentenceEnd();
  #tokens = 0;

  constructor(ask: TextAsk) {
    const { stop = [], minTokens = 0, stopsFrom = minTokens, constraint, decoder, prompt } = ask;
    this.#ask = ask;
    this.#stream = decoder && new TextStream(decoder, prompt);
    this.#ends = new TextEnds({ stop, minTokens, stopsFrom }, constraint, decoder !== undefined);
  }

  /** Tokens that may still come. */
  get remaining(): number {
    return (this.#ask.maxTokens ?? Infinity) - this.#tokens;
  }

  get #mayEndAtSentence(): boolean {
    const { endAtSentence = false, maxTokens = Infinity } = this.#ask;
    return endAtSentence && this.#tokens >= leastPart * maxTokens;
  }

  /** Tokens that may not come next, since they would end the text. A constraint rules out by itself what it does not have. */
  get barred(): ReadonlySet<number> | undefined {
    const isFree = this.#ends.hasLeast || this.#ask.constraint?.mayEnd === false || this.#ends.isOver;
    return isFree ? undefined : this.#ask.endTokens;
  }

  /** True for a token that ends the text here. */
  endsWith(token: number): boolean {
    return this.#ask.endTokens.has(token) && this.#ends.mayEnd;
  }

  /** Adds a token, which the text's constraint has taken already unless it ends the text. `full` says that the context has no room to read it. */
  push(token: number, full: boolean, ends: boolean = this.endsWith(token)): Continued {
    if (ends) return this.#end("end-token", "");
    this.#tokens++;
    const { text, stopped, ...which } = this.#ends.push(this.#textOf(token));
    if (stopped) return { text, end: "stopped", ...which };
    if (this.#ends.isOver) return this.#end("end-token", text);
    const sentence = this.#sentence.push(text);
    if (sentence !== undefined && this.#mayEndAtSentence) return { text: sentence, end: "max-tokens" };
    if (this.remaining <= 0) return this.#end("max-tokens", text);
    if (full && this.#ask.whenFull !== "slide") return this.#end("context-full", text);
    return { text, end: undefined };
  }

  /** The text that is certain with a token. */
  #textOf(token: number): string {
    const { decoder, markers } = this.#ask;
    if (this.#stream === undefined || decoder === undefined) return "";
    const marker = markers?.get(token);
    if (marker === undefined) return this.#stream.push(token);
    const before = this.#stream.end();
    this.#stream = new TextStream(decoder);
    return before + marker;
  }

  /** Ends the text with what was held back of it, as far as no stop string is in that. */
  #end(end: TextEnd, before: string): Continued {
    return { text: before + this.#ends.end(this.#stream?.end() ?? ""), end };
  }
}

/** The error of whenFull: "error", and of a prompt that does not fit. */
export const contextFull = (capacity: number): InsituError =>
  new InsituError(
    "context-full",
    `the context of ${capacity} tokens is full; ask for a longer one, for fewer tokens, or for whenFull: "slide"`,
  );
