/** What a page and the thread that runs its model say to one another. Structured data alone; numbers that name streams, chats and states are the page's. */
import type { BlockDescription, PoolStatistics } from "#insitu/cache/block-pool.js";
import type { BatchToken } from "#insitu/generate/batch.js";
import type { Beam } from "#insitu/generate/beams.js";
import type { GeneratedToken, GenerationSummary } from "#insitu/generate/generation.js";
import type { AnyChatMessage } from "#insitu/generate/messages.js";
import type { Prompt } from "#insitu/generate/prompt-items.js";
import type { Pooling } from "#insitu/embedding/pooling.js";
import type { EmbedOptions, RankedDocument } from "#insitu/embedding/text-embedder.js";
import type { ValueMetadata } from "#insitu/session/metadata.js";
import type { StateOptions } from "#insitu/session/create-state.js";
import type { ModelDefaults } from "#insitu/generate/options.js";
import type { SessionExplanation } from "#insitu/session/session.js";
import type { TextTokenizer } from "#insitu/generate/tokenizer.js";

/** Options that can cross: without functions, whose places are told beside them. */
export interface CrossingOptions {
  readonly plain: Readonly<Record<string, unknown>>;
  /** Where functions were, such as `onProgress` and `webgpu.onPipelines`: calls of them come back as `Told`. */
  readonly heard: readonly string[];
}

/** A tensor on its way. */
export interface CrossingTensor {
  readonly type: string;
  readonly data: ArrayBufferView | readonly string[];
  readonly dims: readonly number[];
}

/** Tensors by name. */
type CrossingTensors = Readonly<Record<string, CrossingTensor>>;

/** What is known of a language model once it is loaded. */
export interface ModelFacts {
  readonly backend: string;
  readonly contextLength: number;
  readonly vocabulary: number;
  readonly config: Readonly<Record<string, unknown>>;
  readonly defaults: ModelDefaults;
  readonly hasChatTemplate: boolean;
  /** The end token of the tokenizer's configuration. */
  readonly endToken: number | undefined;
}

/** What is known of an embedding model once it is loaded. */
export interface EmbedderFacts {
  readonly backend: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly pooling: Pooling;
  readonly isCrossEncoder: boolean;
  readonly prompts: Readonly<Record<string, string>>;
  readonly maxTokens: number;
}

/** What a page may ask a tokenizer for. */
export type TokenizerCalls = Pick<
  TextTokenizer,
  "encode" | "encodeChat" | "decode" | "tokenOf" | "spellingOf" | "renderChat"
>;

/** The pages that texts lie on, as a picture shows them. */
export interface PagesDescription {
  /** Blocks by what they are used for. */
  readonly statistics: PoolStatistics;
  /** Bytes of one block in all layers. */
  readonly blockBytes: number;
  /** Every block, and who has it. */
  readonly blocks: readonly BlockDescription[];
}

/** What is known of a session once it is created. */
export interface SessionFacts {
  readonly backend: string;
  readonly inputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
}

/** What is known of a state after something was done with it. */
export interface StateFacts {
  readonly names: readonly string[];
  readonly lengths: readonly number[];
}

/** Everything that is asked once and answered once, by name. */
export interface Calls {
  loadModel(given: { readonly source: string | object | undefined; readonly options: CrossingOptions }): ModelFacts;
  createSession(given: {
    readonly source: string | Uint8Array | ArrayBufferLike;
    readonly options: CrossingOptions;
  }): SessionFacts;
  loadEmbedder(given: { readonly source: string; readonly options: CrossingOptions }): EmbedderFacts;
  embed(given: { readonly texts: string | readonly string[]; readonly options: EmbedOptions }): Float32Array[];
  rank(given: {
    readonly query: string;
    readonly documents: readonly string[];
    readonly options: EmbedOptions;
  }): RankedDocument[];
  tokenizer(given: { readonly name: keyof TokenizerCalls; readonly values: readonly unknown[] }): unknown;
  explain(given: { readonly json: boolean }): string | SessionExplanation;
  pages(given: object): PagesDescription | undefined;
  /** Reads the prompt; the texts have these numbers. */
  samples(given: { readonly streams: readonly number[]; readonly prompt: Prompt; readonly options: object }): void;
  beamSearch(given: {
    readonly prompt: Prompt;
    readonly options: object;
  }): readonly (Beam & { readonly text: string })[];
  saveContext(given: object): Uint8Array;
  restoreContext(given: { readonly bytes: Uint8Array }): void;
  releaseChat(given: { readonly chat: number }): void;
  run(given: {
    readonly feeds: CrossingTensors;
    readonly fetches: readonly string[] | undefined;
    readonly state: number | undefined;
  }): { readonly results: CrossingTensors; readonly state: StateFacts | undefined };
  createState(given: { readonly state: number; readonly options: StateOptions | undefined }): StateFacts;
  forkState(given: { readonly state: number; readonly fork: number }): StateFacts;
  rewindState(given: { readonly state: number; readonly length: number | readonly number[] }): StateFacts;
  readState(given: { readonly state: number; readonly name: string }): CrossingTensor;
  saveState(given: { readonly state: number }): Uint8Array;
  restoreState(given: { readonly state: number; readonly bytes: Uint8Array }): StateFacts;
  releaseState(given: { readonly state: number }): void;
  release(given: object): void;
}

/** A question that has one answer. */
export interface Asked<Name extends keyof Calls = keyof Calls> {
  readonly kind: "ask";
  readonly id: number;
  readonly name: Name;
  readonly given: Parameters<Calls[Name]>[0];
}

/** What the page sends. */
export type ToThread =
  | Asked
  /** Nobody wants the answer to a question any more. */
  | { readonly kind: "cancel"; readonly id: number }
  /** What relative URLs are relative to. */
  | { readonly kind: "base"; readonly url: string }
  /** A text to be made, once tokens are asked for; an answer of a conversation where one is named. */
  | { readonly kind: "generate"; readonly stream: number; readonly prompt: Prompt; readonly options: object }
  | {
      readonly kind: "batch";
      readonly stream: number;
      readonly prompts: readonly Prompt[];
      readonly options: object;
    }
  | {
      readonly kind: "send";
      readonly stream: number;
      readonly chat: number;
      readonly message: readonly AnyChatMessage[];
      readonly options: object;
    }
  | {
      readonly kind: "reply";
      readonly stream: number;
      readonly messages: readonly AnyChatMessage[];
      readonly options: object;
    }
  /** So many tokens more may come. */
  | { readonly kind: "more"; readonly stream: number; readonly count: number }
  /** Nobody wants the text any more. */
  | { readonly kind: "stop"; readonly stream: number }
  | {
      readonly kind: "chat";
      readonly chat: number;
      readonly opening: readonly AnyChatMessage[] | undefined;
      readonly options: object;
    }
  | { readonly kind: "rewind"; readonly chat: number; readonly turns: number }
  | { readonly kind: "fork"; readonly chat: number; readonly fork: number };

/** An error on its way. */
export interface CrossingError {
  readonly name: string;
  readonly message: string;
  /** One of insitu's codes, where it is an error of insitu's. */
  readonly code: string | undefined;
  readonly stack: string | undefined;
}

/** What the thread sends. */
export type FromThread =
  | { readonly kind: "ready" }
  | { readonly kind: "answer"; readonly id: number; readonly value: unknown }
  | { readonly kind: "refusal"; readonly id: number; readonly error: CrossingError }
  /** A function of the options was called. */
  | { readonly kind: "told"; readonly id: number; readonly name: string; readonly values: readonly unknown[] }
  | {
      readonly kind: "token";
      readonly stream: number;
      readonly token: GeneratedToken | BatchToken;
      /** Left out where tokens are those of several texts. */
      readonly summary: GenerationSummary | undefined;
    }
  /** The text has ended, by itself or because it was stopped; `error` where it failed. */
  | {
      readonly kind: "end";
      readonly stream: number;
      readonly summary: GenerationSummary | undefined;
      readonly error: CrossingError | undefined;
    };
