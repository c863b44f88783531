/** What the page asks of whoever makes the text: a server over its API, or a model in this browser. The views know nothing else of either. */
import type { Signal } from "@preact/signals";

/** A message as the model is given it. */
export interface SaidMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** How tokens are chosen and where a text ends; what is left out is the model's. */
export interface Sampling {
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly minP?: number;
  readonly repetitionPenalty?: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly seed?: number;
  readonly maxTokens?: number;
  readonly minTokens?: number;
  readonly stop?: readonly string[];
  readonly jsonSchema?: object | boolean;
  /** What the model may call; the calls are shown. */
  readonly tools?: readonly object[];
}

/** A text that is wanted: the answer to messages, or what follows on a text. `partial` is an answer that goes on from there. */
export interface Asked {
  readonly messages?: readonly SaidMessage[];
  readonly prompt?: string;
  readonly partial?: string;
  readonly sampling: Sampling;
  /** Tokens of the answer that came already: it goes on behind them. */
  readonly after?: readonly DrawnToken[];
  /** True asks for each token's probability and its alternatives. */
  readonly probabilities: boolean;
}

/** A token as it was drawn. */
export interface DrawnToken {
  readonly text: string;
  /** Its number, where the host tells it, behind those of tokens before it that had no text of their own. */
  readonly ids?: readonly number[];
  readonly probability?: number;
  readonly top?: readonly { readonly text: string; readonly probability: number; readonly token?: number }[];
  /** Looks up the texts of `top`, where they are not there before somebody asks. */
  readonly spell?: () => Promise<void>;
}

/** What a text took so far. */
export interface TextStats {
  readonly promptTokens: number;
  readonly reusedTokens: number;
  readonly newTokens: number;
  readonly firstTokenMilliseconds: number;
  readonly tokensPerSecond: number;
  /** Cache bytes written in place, moved, and what a runtime that copies its caches would have moved. */
  readonly writtenBytes?: number;
  readonly movedBytes?: number;
  readonly copyingBytes?: number;
  readonly seed?: number;
}

/** Why a text ended, in OpenAI's words. */
export type Finish = "stop" | "length" | "tool_calls";

/** What is told of a text while it is made. */
export type TextEvent =
  | { readonly kind: "text" | "reasoning"; readonly text: string; readonly tokens?: readonly DrawnToken[] }
  | { readonly kind: "call"; readonly index: number; readonly name?: string; readonly arguments?: string }
  | { readonly kind: "stats"; readonly stats: TextStats }
  | { readonly kind: "finish"; readonly finish: Finish };

/** A model that can be talked to. */
export interface ModelFacts {
  readonly name: string;
  /** Left out for one that a server has not loaded yet. */
  readonly context?: number;
  readonly hasTemplate: boolean;
  readonly backend?: string;
  /** What the model's own files say of sampling. */
  readonly defaults: Sampling;
}

/** What a block of the cache is used for: free; known contents that nobody uses; this key's; shared by several of its texts; somebody else's. */
export type BlockUse = "free" | "kept" | "own" | "shared" | "other";

/** The cache, as it is drawn. */
export interface CacheFacts {
  readonly blockSize: number;
  /** Bytes of one token's rows in all layers. */
  readonly rowBytes: number;
  readonly blocks: readonly { readonly use: BlockUse; readonly rows: number }[];
  /** The texts that hold blocks: block numbers in order. The one in the making comes last. */
  readonly texts: readonly { readonly name: string; readonly rows: number; readonly blocks: readonly number[] }[];
}

/** One cache of the plan, and its verdict. */
export interface CacheVerdict {
  readonly input: string;
  readonly inPlace: boolean;
  readonly words: string;
}

/** A model that a visitor may choose. */
export interface ModelChoice {
  readonly id: string;
  readonly title: string;
  readonly about: string;
  readonly bytes?: number;
  /** Why it does not fit this device, where that is known. */
  readonly tooLarge?: string;
  readonly isStored: boolean;
  readonly isRemovable: boolean;
}

/** A model that a server has. */
export interface ServedChoice {
  readonly id: string;
  /** Whether it is loaded, and what it takes. */
  readonly about: string;
}

/** Whether there is somebody to ask. */
export type HostState =
  | { readonly kind: "starting" }
  | { readonly kind: "loading"; readonly what: string; readonly loaded: number; readonly total: number }
  | { readonly kind: "ready" }
  /** `key`: an API key is asked for. */
  | { readonly kind: "failed"; readonly why: string; readonly wayOut?: "key" | "retry" | "models" };

/** Whoever makes the text. */
export interface Host {
  readonly kind: "server" | "browser";
  readonly state: Signal<HostState>;
  readonly model: Signal<ModelFacts | undefined>;
  /** Finds out what there is, and has it ready. */
  start(): Promise<void>;
  ask(asked: Asked, signal: AbortSignal): AsyncIterable<TextEvent>;
  cache(): Promise<CacheFacts | undefined>;
  verdicts(): Promise<readonly CacheVerdict[]>;
  /** Models to choose from, where this browser loads them. */
  readonly models?: ModelShelf;
  /** Models to choose from, where a server has them. */
  readonly served?: { readonly choices: Signal<readonly ServedChoice[]>; choose(id: string): Promise<void> };
}

/** The models of this browser. */
export interface ModelShelf {
  /** Looks at what there is now. */
  refresh(): Promise<void>;
  readonly choices: Signal<readonly ModelChoice[]>;
  readonly current: Signal<string | undefined>;
  readonly backend: Signal<"auto" | "wasm" | "webgpu">;
  load(id: string): Promise<void>;
  stop(): void;
  remove(id: string): Promise<void>;
  /** What is stored, in words. */
  readonly storage: Signal<string>;
  /** A folder, or its files, from this machine; the id of what can be loaded then. */
  addFolder(folder: FileSystemDirectoryHandle | readonly File[]): string;
  /** A name on the hub, or a URL. */
  addName(name: string): string;
  /** Asks the browser to keep what is stored; whether it does. */
  persist(): Promise<boolean>;
}
