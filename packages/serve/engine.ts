/**
 * What the door (HTTP, wire/) asks of the engine behind it (running/, over the scheduler): texts in tokens, many at once, on one pool of pages.
 * The door knows no model and no pages; the engine knows no HTTP.
 */
import type { MadeToken, TextListener, TokenLogprob } from "#insitu/engine/made-text.js";
import type { TextAsk, TextEnd } from "#insitu/engine/text-ask.js";

export type { MadeToken, TextEnd, TextListener, TokenLogprob };

/** One text that is asked for, and whom it is for. */
export interface TextRequest extends TextAsk {
  readonly id: string;
  /** Turns go round over these. What is shared between them is said by `salt`. */
  readonly tenant: string;
  /** Prefixes are shared between requests of one salt only. */
  readonly salt?: string;
  /** Higher ones first; 0 where left out. */
  readonly priority?: number;
  readonly maxTokens: number;
  /** Texts of the same request that are submitted right after this one: where there is no place for all of them, none is taken. */
  readonly coming?: number;
}

/** Whom an embedding is for. */
export interface EmbeddingAsker {
  /** Turns go round over these. */
  readonly tenant?: string;
  /** True for all but the first of a request: what was taken in is not refused in the middle. */
  readonly isNext?: boolean;
}

/** A text that was taken in. */
export interface RunningText {
  /** Ends it without a further word; its blocks are free within one step. */
  cancel(): void;
}

/** What the engine does right now, and has done: what metrics show. Counts only grow. */
export interface EngineFigures {
  readonly waiting: number;
  readonly running: number;
  readonly blocks: number;
  readonly blocksUsed: number;
  readonly blockSize: number;
  readonly promptTokens: number;
  readonly reusedTokens: number;
  readonly madeTokens: number;
  readonly preemptions: number;
  readonly steps: number;
  /** Guesses that were checked in texts that are over, and those of them that were right; left out where nothing is guessed. */
  readonly guessedTokens?: number;
  readonly rightGuesses?: number;
  /** Of the store of beginnings, where there is one. */
  readonly store?: StoreFigures;
}

/** What became of the blocks of a store; whether it is asked right now. Counts only grow. */
export interface StoreFigures {
  /** Blocks that were taken over, and those that the store did not have. */
  readonly hits: number;
  readonly misses: number;
  /** Values that were damaged, or not what was asked for. */
  readonly refused: number;
  /** Calls that failed or took too long. */
  readonly errors: number;
  /** Blocks that were kept, and those that were not: too many were on their way, or the store failed. */
  readonly saved: number;
  readonly dropped: number;
  readonly reading: "closed" | "half-open" | "open";
  readonly writing: "closed" | "half-open" | "open";
  /** Tokens from which on a beginning is asked for: Infinity where computing is quicker. */
  readonly leastTokens: number;
}

/** The pool of pages as one tenant may see it: of others it is told how many blocks they have. */
export interface EnginePool {
  /** Rows in a block, and bytes of one row in all layers. */
  readonly blockSize: number;
  readonly rowBytes: number;
  readonly blocks: readonly { readonly use: "free" | "kept" | "own" | "shared" | "other"; readonly rows: number }[];
  /** The tenant's texts in the making, with their blocks in order. */
  readonly texts: readonly { readonly id: string; readonly rows: number; readonly blocks: readonly number[] }[];
}

/** What generates completions for a server: takes requests, batches them, reports figures. */
export interface Engine {
  /** The context window: tokens of prompt and completion together. */
  readonly context: number;
  /** The size of the vocabulary. */
  readonly vocabulary: number;
  /**
   * Accepts a request. Throws an InsituError, with nothing begun: "queue-full" (with `retryAfterSeconds`), "context-overflow" (both numbers),
   * "closed" (draining or closed). A text that waits may fail with "queue-full" later, when tenants come that have fewer of them waiting.
   */
  submit(request: TextRequest, listener: TextListener): RunningText;
  /** The mean of the last hidden state; undefined where the model does not hand it out. */
  readonly embed?: (tokens: readonly number[], signal?: AbortSignal, asker?: EmbeddingAsker) => Promise<Float32Array>;
  /**
   * Compiles what the usual runs need before the first request, for at most this time (30 seconds by default). Rejects if the model is lost
   * meanwhile. Absent if there is nothing to compile.
   */
  readonly warm?: (limitMilliseconds?: number) => Promise<void>;
  /** Resolves with the reason once the model can generate nothing more, such as after its GPU was lost. All completions fail with that reason. */
  readonly lost?: Promise<Error>;
  /** The block pool as one tenant sees it; undefined without a paged cache. */
  readonly pool?: (tenant: string) => EnginePool;
  /** The engine's figures for /metrics. */
  figures(): EngineFigures;
  /** Accepts no more requests, and waits until all completions are done or the time is up. Completions that are left fail with "closed". */
  drain(limitMilliseconds: number): Promise<void>;
  /** Ends everything now. */
  close(): Promise<void>;
}
