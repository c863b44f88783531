/** What a server is told: its limits, keys and manners, with what each is where nobody says. */
import {
  checkCallback,
  checkChoice,
  checkCount,
  checkName,
  checkObject,
  checkRule,
  optionsWithoutNull,
} from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import type { LanguageModel } from "../generate/causal-lm.js";
import { checkGenerateOptions, type DraftModel } from "../generate/options.js";
import type { TextEmbedder } from "../generate/text-embedder.js";
import type { Engine } from "./engine.js";
import type { PrefixStore } from "./running/prefix-store.js";
import type { RequestLimits } from "./wire/limits.js";

/** Bounds on what one client can take. */
export interface ServerLimits extends RequestLimits {
  /** Bytes of a request's body. */
  readonly bodyBytes: number;
  /** Requests that one key, or everybody where there are none, may have open at a time: those whose bodies are there. */
  readonly openRequests: number;
  /** Bytes that may wait for a reader that reads nothing for a time; then its stream ends, and says so. */
  readonly waitingBytes: number;
  /** Seconds that a request may take. */
  readonly seconds: number;
}

/** A model that a server may load. */
export interface ModelSource {
  /** Its name in requests. */
  readonly name: string;
  /** Loads it; `memoryLimit` are the bytes that it may take, where there is a bound. What it gives is the server's to release. */
  readonly load: (memoryLimit?: number) => Promise<LanguageModel>;
  /** True loads it when the server begins, and never lets go of it. */
  readonly pinned?: boolean;
}

/** What happened to one request: one line of a log. Prompts are there only where they were asked for. */
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

/** How a server is made. */
export interface ServerOptions {
  /** The model's name in requests and in /v1/models; "insitu" where left out. */
  readonly model?: string;
  /** Keys that clients must show; where there are none, everybody may ask. */
  readonly apiKeys?: readonly string[];
  /** Pages of these origins may ask; "*" for all. None where left out. */
  readonly cors?: string | readonly string[];
  /** Names that requests may have the server by; any where left out. Keeps pages from reaching it under a name of their own. */
  readonly hosts?: readonly string[];
  /** "vllm" also tells what routers read under the names of vLLM. */
  readonly metricsDialect?: "insitu" | "vllm";
  /** What one request may ask for; `ServerLimits` has the defaults. */
  readonly limits?: Partial<ServerLimits>;
  /** Hears of every request once it is over. */
  readonly log?: (entry: LogEntry) => void;
  /** True puts prompts into the log. */
  readonly logPrompts?: boolean;
  /** Texts that may wait; 256 where left out. */
  readonly maxQueue?: number;
  /** Texts that are made at a time, where the model was loaded with cache: "paged"; 16 where left out, and 64 on a GPU. */
  readonly maxRunning?: number;
  /** A smaller model with the same vocabulary that guesses tokens of all texts, where there is one model; it stays its owner's to release. Texts stay the same. */
  readonly draft?: DraftModel;
  /** True shares beginnings of texts between keys: who asks can tell by the time of an answer what others asked before. */
  readonly sharePrefixes?: boolean;
  /** Where beginnings of texts are kept that outlive the server, on pages. */
  readonly prefixes?: PrefixStore | Promise<PrefixStore>;
  /** Makes what runs the texts, in place of the server's own. */
  readonly engine?: (lm: LanguageModel) => Engine | Promise<Engine>;
  /** Loads the model again once it was lost with its GPU: it is the server's to release. Where left out, all requests are refused from then on. */
  readonly reload?: () => Promise<LanguageModel>;
  /** Hears in a sentence when the model was lost, and when it is there again. */
  readonly tell?: (line: string) => void;
  /** Embedding models and cross encoders by their names, for /v1/embeddings and /v1/rerank; they are their owner's to release. */
  readonly embedders?: Readonly<Record<string, TextEmbedder>>;
  /** Other names of models, such as `{ "gpt-4o": "qwen3-0.6b" }`: for programs whose names are fixed. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Bytes that all models that are loaded may take together, where there are several; no bound where left out. */
  readonly memory?: number;
  /** Seconds that a model stays loaded which nobody asks, where there are several; as long as there is room where left out. */
  readonly keepAlive?: number;
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
