/** What a text is asked to be: the one description of a text, for every door. What fills it from options or from a request checks it. */
import type { TokenConstraint } from "#insitu/choice/constraint.js";
import type { EndRules } from "./ending.js";
import type { MadeText } from "./made-text.js";
import type { Sampling } from "#insitu/choice/sampling.js";
import type { TokenDecoder } from "./text-stream.js";
import type { TokenEngine } from "./token-engine.js";

/** What guesses for one text. */
export interface Follower {
  /** Guesses so many tokens behind the text as it is now, as far as there is room. False where it cannot follow it any more. */
  ask(count: number): boolean;
  /** Tokens that it reads before the first guess. */
  readonly unread: number;
  readonly guesses: readonly number[];
  /** True if nothing more is guessed. */
  readonly isDone: boolean;
  readonly isOver: boolean;
}

/** What guesses what a model says: another model, or a head that reads its hidden states. */
export interface DraftSource {
  /** The engine whose turns are waited for. */
  readonly engine?: TokenEngine;
  /** Of a head: the engine of the model that it guesses for, and the output of that model which it reads. */
  readonly of?: TokenEngine;
  readonly reads?: string;
  /** Throws where there is no room. */
  follow(made: MadeText): Follower;
  /** Goes on with guesses that were asked for; false where nothing can be done. */
  advance(asked: readonly Follower[]): Promise<boolean>;
  leave(follower: Follower): Promise<void>;
}

/** How tokens are guessed. */
interface Speculation {
  /** Guesses are what followed the text's last tokens before, so many of them where they did; they are not looked up where left out. */
  readonly ngram?: number | undefined;
  /** Guesses at a time at most. */
  readonly tokens: number;
  /** Who guesses where nothing was looked up. */
  readonly draft?: DraftSource | undefined;
  /** False has the draft make as many guesses as there may be each time, whether that pays or not. */
  readonly adaptive: boolean;
}

/** What happens when the context window is full. */
export type WhenFull = "stop" | "slide" | "error";

/** One text. */
export interface TextAsk extends Partial<EndRules> {
  /** At least one token. */
  readonly prompt: readonly number[];
  /** New tokens at most; as many as fit where left out. */
  readonly maxTokens?: number | undefined;
  /** Tokens that end it; they are no part of it. */
  readonly endTokens: ReadonlySet<number>;
  readonly sampling: Sampling;
  /** Added to the logits of these tokens, after penalties and before the constraint. */
  readonly logitBias?: ReadonlyMap<number, number> | undefined;
  /** How many of the likeliest tokens are told beside each chosen one; undefined tells no log-probabilities. */
  readonly logprobs?: number | undefined;
  readonly constraint?: TokenConstraint | undefined;
  /** True ends the text where a sentence ends, once three quarters of its tokens are made. */
  readonly endAtSentence?: boolean;
  /** "stop" where left out. */
  readonly whenFull?: WhenFull;
  /** How tokens are guessed and checked in one run; none are where left out. */
  readonly speculate?: Speculation | undefined;
  /** Tokens that a device is asked for at once; by their pace where left out. */
  readonly tokensAtOnce?: number | undefined;
  /** What makes text of its tokens: stop strings and sentences are found in that. No text is made where left out. */
  readonly decoder?: TokenDecoder;
  /** Control tokens that stand in the text as they are spelled. */
  readonly markers?: ReadonlyMap<number, string> | undefined;
}

/** Why a text ended: an end token, which is not told as a token; a stop string or its listener; the count of tokens; a full context. */
export type TextEnd = "end-token" | "stopped" | "max-tokens" | "context-full";
