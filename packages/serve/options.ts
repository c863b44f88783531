/** What a server is told: its limits, keys and manners, with what each is where nobody says. */
import {
  checkCallback,
  checkChoice,
  checkCount,
  checkName,
  checkObject,
  checkRule,
  optionsWithoutNull,
} from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import type { OptionNames } from "#insitu/base/option-names.js";
import type { LanguageModel } from "#insitu/generate/causal-lm.js";
import { checkGenerateOptions, type DraftModel } from "#insitu/generate/options.js";
import type { TextEmbedder } from "#insitu/embedding/text-embedder.js";
import type { Engine } from "./engine.js";
import type { PrefixStore } from "./running/prefix-store.js";
import type { RequestLimits } from "./wire/limits.js";

/** Limits on what one request and one client can take. */
export interface ServerLimits extends RequestLimits {
  /**
   * The most bytes in the body of a request.
   * @default 4 MiB
   */
  readonly bodyBytes: number;
  /**
   * The most requests that one API key may have open at a time (all clients together if there are no keys).
   * @default 256
   */
  readonly openRequests: number;
  /**
   * How many bytes of a stream may wait for a client that does not read; then the stream ends with an error.
   * @default 256 KiB
   */
  readonly waitingBytes: number;
  /**
   * The most seconds that a request may take.
   * @default 600
   */
  readonly seconds: number;
}

/** A model that a server loads when a request names it. */
export interface ModelSource {
  /** The model's name in requests. */
  readonly name: string;
  /** Loads the model. `memoryLimit` is how many bytes it may take. The server releases what this returns. */
  readonly load: (memoryLimit?: number) => Promise<LanguageModel>;
  /**
   * True loads the model when the server starts, and never unloads it.
   * @default false
   */
  readonly pinned?: boolean | undefined;
}

/** One line of the log: what happened to one request. Prompts are included only with `logPrompts`. */
export interface LogEntry {
  /** When it was over, in ISO form. */
  readonly time: string;
  /** The request's id, as `x-request-id` has it. */
  readonly request: string;
  /** GET, POST, … */
  readonly method: string;
  /** The path, without its query. */
  readonly path: string;
  /** The HTTP status. */
  readonly status: number;
  /** From the request to the end of the answer. */
  readonly milliseconds: number;
  /** The beginning of the key's digest. */
  readonly key?: string;
  /** True where the answer was a stream. */
  readonly stream?: boolean;
  /** Tokens of all prompts. */
  readonly promptTokens?: number;
  /** Those of them that were not read again. */
  readonly cachedTokens?: number;
  /** Tokens that were made. */
  readonly newTokens?: number;
  /** From the request to the first token. */
  readonly firstTokenMilliseconds?: number;
  /** "gone": the client left; "slow": it read too slowly; otherwise how the texts ended. */
  readonly end?: string;
  /** The code of the refusal or failure, and the field. */
  readonly error?: string;
  /** The prompts, with `logPrompts` alone. */
  readonly prompt?: unknown;
}

/** Options of `createServer`. */
export interface ServerOptions {
  /**
   * The model's name in requests and in /v1/models.
   * @default "insitu"
   */
  readonly model?: string | undefined;
  /**
   * API keys that clients must send; at least 8 characters each.
   * @default [], which lets everybody in
   */
  readonly apiKeys?: readonly string[] | undefined;
  /**
   * Origins whose web pages may call the server; "*" for all.
   * @default []
   */
  readonly cors?: string | readonly string[] | undefined;
  /**
   * Host names that requests may use. Protects against DNS rebinding.
   * @default any
   */
  readonly hosts?: readonly string[] | undefined;
  /**
   * "vllm" also reports metrics under vLLM's names, for routers that read those.
   * @default "insitu"
   */
  readonly metricsDialect?: "insitu" | "vllm" | undefined;
  /**
   * Limits on one request and one client, where they differ from the defaults of `ServerLimits`.
   * @default {}
   */
  readonly limits?: Partial<ServerLimits> | undefined;
  /** Called with one entry for each request, once it is over. */
  readonly log?: ((entry: LogEntry) => void) | undefined;
  /**
   * True puts prompts into the log.
   * @default false
   */
  readonly logPrompts?: boolean | undefined;
  /**
   * How many completions may wait for their turn.
   * @default 256
   */
  readonly maxQueue?: number | undefined;
  /**
   * Continuous batching: how many completions are generated at the same time, for a model loaded with `cache: "paged"`.
   * @default 16, and 64 on a GPU
   */
  readonly maxRunning?: number | undefined;
  /**
   * A smaller model with the same vocabulary that guesses tokens for all completions (speculative decoding). Completions stay the same. You release it.
   * @default none
   */
  readonly draft?: DraftModel | undefined;
  /**
   * True shares the prefix cache between API keys. Response times then reveal what others asked before.
   * @default false
   */
  readonly sharePrefixes?: boolean | undefined;
  /** A store that keeps the prefix cache beyond the life of the server, for a model loaded with `cache: "paged"`. */
  readonly prefixes?: PrefixStore | Promise<PrefixStore> | undefined;
  /**
   * Makes the engine that generates completions.
   * @default the server's own
   */
  readonly engine?: ((lm: LanguageModel) => Engine | Promise<Engine>) | undefined;
  /** Loads the model again after its GPU was lost. The server releases what this returns. Without it, all further requests are refused. */
  readonly reload?: (() => Promise<LanguageModel>) | undefined;
  /** Called with a sentence when the model is lost, and when it is back. */
  readonly tell?: ((line: string) => void) | undefined;
  /**
   * Embedding models and rerankers by name, for /v1/embeddings and /v1/rerank. You release them.
   * @default {}
   */
  readonly embedders?: Readonly<Record<string, TextEmbedder>> | undefined;
  /**
   * Other names for models, such as `{ "gpt-4o": "qwen3-0.6b" }`, for programs whose model names are fixed.
   * @default {}
   */
  readonly aliases?: Readonly<Record<string, string>> | undefined;
  /**
   * The most bytes that all loaded models may take together, where the server has several.
   * @default no limit
   */
  readonly memory?: number | undefined;
  /**
   * Seconds after which a model without requests is unloaded, where the server has several.
   * @default no limit
   */
  readonly keepAlive?: number | undefined;
}

/** Options without gaps. */
export interface ServerSettings {
  readonly model: string;
  readonly apiKeys: readonly string[];
  readonly cors: readonly string[];
  readonly hosts: readonly string[] | undefined;
  readonly metricsDialect: "insitu" | "vllm";
  readonly maxQueue: number;
  readonly maxRunning: number | undefined;
  readonly draft: DraftModel | undefined;
  readonly sharePrefixes: boolean;
  readonly prefixes: PrefixStore | Promise<PrefixStore> | undefined;
  readonly limits: ServerLimits;
  readonly log: (entry: LogEntry) => void;
  readonly logPrompts: boolean;
  readonly reload: (() => Promise<LanguageModel>) | undefined;
  readonly tell: (line: string) => void;
  readonly aliases: ReadonlyMap<string, string>;
  readonly embedders: ReadonlyMap<string, TextEmbedder>;
  readonly memory: number;
  readonly keepAlive: number;
}

const serverOptionNames: OptionNames<ServerOptions> = {
  model: true,
  apiKeys: true,
  cors: true,
  hosts: true,
  metricsDialect: true,
  limits: true,
  log: true,
  logPrompts: true,
  maxQueue: true,
  maxRunning: true,
  draft: true,
  sharePrefixes: true,
  prefixes: true,
  engine: true,
  reload: true,
  tell: true,
  aliases: true,
  embedders: true,
  memory: true,
  keepAlive: true,
};

const serverLimitNames: OptionNames<ServerLimits> = {
  bodyBytes: true,
  messages: true,
  choices: true,
  newTokens: true,
  priority: true,
  openRequests: true,
  waitingBytes: true,
  seconds: true,
};

const usualLimits: ServerLimits = {
  bodyBytes: 4 << 20,
  messages: 2048,
  choices: 16,
  newTokens: Number.MAX_SAFE_INTEGER,
  priority: 0,
  openRequests: 256,
  waitingBytes: 256 << 10,
  seconds: 600,
};

/** As browsers name the site of a page: without a scheme it would never be one. */
const isOrigin = (origin: unknown): boolean =>
  typeof origin === "string" && /^([a-z][\w+.-]*:\/\/[^/\s]+\/?|\*|null)$/i.test(origin);

/** Reads options; throws for values that mean nothing. */
export function readServerOptions(given?: ServerOptions): ServerSettings {
  const options = optionsWithoutNull("the options of createServer", given, serverOptionNames);
  const { model = "insitu", apiKeys = [], cors = [], metricsDialect = "insitu", maxQueue = 256 } = options;
  const { aliases = {}, embedders = {}, memory = Infinity, keepAlive = Infinity } = options;
  checkObject("option aliases", aliases);
  checkObject("option embedders", embedders);
  for (const [alias, name] of Object.entries(aliases)) checkName(`option aliases: what ${alias} stands for`, name);
  checkRule("option memory", memory, "a number of bytes above 0", memory > 0);
  checkRule("option keepAlive", keepAlive, "a number of seconds from 0 on", keepAlive >= 0);
  checkCount("option maxQueue", maxQueue);
  checkCount("option maxRunning", options.maxRunning, 1);
  checkGenerateOptions(options.draft === undefined ? {} : { speculate: { draft: options.draft } });
  checkName("option model", model);
  checkCallback("option reload", options.reload);
  checkCallback("option tell", options.tell);
  checkChoice("option metricsDialect", metricsDialect, ["insitu", "vllm"]);
  checkRule("option apiKeys", apiKeys, "a list of texts", Array.isArray(apiKeys));
  for (const origin of [cors].flat())
    checkRule("option cors", origin, 'origins such as "https://example.com", or "*"', isOrigin(origin));
  for (const key of apiKeys)
    if (typeof key !== "string" || key.length < 8)
      throw new InsituError("invalid-argument", "option apiKeys: a key must have 8 characters or more");
  const limits = { ...usualLimits, ...optionsWithoutNull("option limits", options.limits, serverLimitNames) };
  for (const [name, value] of Object.entries(limits))
    checkCount(`option limits.${name}`, value, name === "priority" ? 0 : 1);
  return {
    model,
    apiKeys,
    // An origin has no path, however often one is written behind it.
    cors: (typeof cors === "string" ? [cors] : cors).map((origin) => origin.replace(/\/$/, "")),
    hosts: options.hosts,
    metricsDialect,
    maxQueue,
    maxRunning: options.maxRunning,
    draft: options.draft,
    sharePrefixes: options.sharePrefixes === true,
    prefixes: options.prefixes,
    limits,
    log: options.log ?? (() => {}),
    logPrompts: options.logPrompts === true,
    reload: options.reload,
    tell: options.tell ?? (() => {}),
    aliases: new Map(Object.entries(aliases)),
    embedders: new Map(Object.entries(embedders)),
    memory,
    keepAlive,
  };
}
