/** `insitu serve`: OpenAI's HTTP interface over a model, on a port; options also by environment, keys never on the command line. */
import { readFileSync } from "node:fs";
import { InsituError } from "#insitu/base/error.js";
import type { CausalLM } from "#insitu/entry/node.js";
import type { LogEntry, Server, ServerOptions } from "#insitu/serve/server.js";
import type { Arguments, Command, CommandOption } from "./command.js";
import { loadDraft, loadModel, numberOf, pageOptions, textOptions } from "./language-model.js";
import { listen, type Listening } from "./listen.js";
import { openPrefixes, type PrefixOptions } from "./prefix-store.js";
import {
  aliasesOf,
  bytesOption,
  loadEmbedders,
  namedModels,
  pinnedOf,
  servedText,
  sourcesOf,
} from "./served-sources.js";
import { UsageError } from "./usage.js";

const {
  variant,
  context,
  backend,
  threads,
  activations,
  draft,
  "tool-format": toolFormat,
  "chat-template": chatTemplate,
} = textOptions;
const { blocks, "block-size": blockSize, "cache-type": cacheType } = pageOptions;

const declared: Readonly<Record<string, CommandOption>> = {
  model: {
    value: "name",
    several: true,
    describes: "a short name, owner/name on the hub, a folder, an ONNX file, or name=any of these; can be repeated",
  },
  variant,
  memory: {
    value: "bytes",
    describes: "the most memory of all models together, such as 8GiB: the least recently used one is unloaded",
  },
  "keep-alive": {
    value: "seconds",
    describes: "unload a model without requests after this time (default: never)",
  },
  pin: { value: "name", several: true, describes: "load this model at the start, and keep it" },
  alias: {
    value: "other=name",
    several: true,
    describes: "another name for a model, for clients with fixed names: gpt-4o=qwen3-0.6b",
  },
  embeddings: {
    value: "name",
    several: true,
    describes:
      "an embedding model or cross encoder for /v1/embeddings and /v1/rerank: a folder, owner/name, or name=either",
  },
  name: { value: "name", describes: "the model's name in requests (default: its folder's name)" },
  host: { value: "address", describes: "the address to listen on (default: 127.0.0.1, this machine only)" },
  port: { value: "N", describes: "the port (default: 8080); 0 picks a free one" },
  "api-key-file": { value: "file", describes: "API keys, one a line; or INSITU_API_KEY" },
  context,
  "tool-format": toolFormat,
  "chat-template": chatTemplate,
  blocks,
  "block-size": blockSize,
  "cache-type": cacheType,
  draft,
  "max-running": { value: "N", describes: "completions that run at a time (default: 16, and 64 on a GPU)" },
  "prefix-cache": { value: "folder", describes: "keep the prefix cache in this folder over a restart" },
  "prefix-cache-size": { value: "bytes", describes: "the most bytes of that folder (default: 4294967296)" },
  store: {
    value: "address",
    describes: "share the prefix cache in Redis or Valkey: redis://host:port, or redis-cluster://host:port,…",
  },
  "store-secret-file": { value: "file", describes: "read only what was signed with this secret" },
  "store-ttl": {
    value: "seconds",
    describes: "how long the store keeps a block that is not written again (default: 86400)",
  },
  "store-deadline": { value: "milliseconds", describes: "how long the store may take to answer (default: 2000)" },
  "share-prefixes": {
    describes: "share prefixes between API keys; response times then show what others asked",
  },
  "max-queue": { value: "N", describes: "completions that wait (default: 256)" },
  "max-open": { value: "N", describes: "open requests of one key (default: 256)" },
  "max-tokens": { value: "N", describes: "the most new tokens of one completion (default: what fits the context)" },
  "max-priority": {
    value: "N",
    describes: "how far from 0 the priority of a request may be; lower ones run first (default: 0)",
  },
  "max-body": { value: "bytes", describes: "the most bytes of a request (default: 4194304)" },
  timeout: { value: "seconds", describes: "how long a request may take (default: 600)" },
  drain: { value: "seconds", describes: "how long completions may take to finish at SIGTERM (default: 30)" },
  cors: { value: "origin", several: true, describes: "allow pages of this origin; * for all (default: none)" },
  "metrics-dialect": { value: "name", describes: "vllm: metrics also under vLLM's names, for routers" },
  "json-logs": { describes: "log each request as a line of JSON" },
  "log-prompts": { describes: "log prompts too" },
  "one-at-a-time": { describes: "run one completion at a time, for comparison" },
  quiet: { describes: "print warnings only" },
  backend,
  threads,
  activations,
};

/** Serves a model until it is told to end. */
export const serve: Command = {
  name: "serve",
  positionals: "[model]",
  arity: [0, 1],
  summary: "serves a model with OpenAI's HTTP interface (default: the embedded one)",
  options: declared,
  async run({ positionals, options: given, lists: givenLists = {} }) {
    const options = withEnvironment(given, process.env);
    const lists = { ...listsIn(process.env), ...givenLists };
    const { createServer, oneAtATime } = await loadServer();
    const host = textOf(options, "host") ?? "127.0.0.1";
    const hosts = isLocal(host) ? { hosts: ["localhost", "127.0.0.1", "[::1]", host] } : {};
    const named = namedModels([...positionals, ...((positionals.length > 0 ? givenLists : lists)["model"] ?? [])]);
    const [{ name }] = named;
    const memory = bytesOption("memory", textOf(options, "memory"));
    const keepAlive = numberOf(options, "keep-alive");
    const isOne = named.length === 1;
    const own = textOf(options, "name");
    if (!isOne && own !== undefined) throw new UsageError("--name is for one model: give --model name=place for each");
    const namedEmbedders = (lists["embeddings"] ?? []).flatMap((each) => namedModels([each]));
    const called = isOne && own !== undefined ? [{ ...named[0], name: own }] : named;
    const pinned = pinnedOf(lists["pin"] ?? [], called);
    const settings = {
      ...serverOptions(options, own ?? name, (served, most) => oneAtATime(served, most, guesser)),
      ...hosts,
      cors: lists["cors"] ?? [],
      aliases: aliasesOf(lists["alias"] ?? [], [...called, ...namedEmbedders]),
    };
    // A text is the same whatever else runs, where a backend can promise it.
    const batchInvariant = (options["backend"] ?? "wasm") === "wasm";
    const load = (model: string | undefined, limit: number | undefined, more: object = {}): Promise<CausalLM> =>
      loadModel({ cache: "paged", ...options, model, ...more }, undefined, {
        batchInvariant,
        ...(limit === undefined ? {} : { memoryLimit: limit }),
      });
    const tell = teller(options);
    const embedders = await loadEmbedders(namedEmbedders, textOf(options, "backend"));
    const loads = isOne ? new ModelLoads((more) => load(named[0].model, memory, more)) : undefined;
    const lm = loads?.load();
    const giveUp = (error: unknown): never => {
      void lm?.then(
        (loaded) => loaded.release(),
        () => {}, // the error at hand is the one to tell
      );
      throw error;
    };
    if (loads === undefined && (options["prefix-cache"] ?? options["store"]) !== undefined)
      throw new UsageError("--prefix-cache and --store are for one model: serve each by itself");
    const prefixes = loads === undefined ? {} : await prefixesOf(loads.first, options).catch(giveUp);
    if (!isOne && options["draft"] !== undefined)
      throw new UsageError("--draft is for one model: serve each by itself, or leave it out");
    const guesser = await loadDraft({ cache: "paged", ...options }, lm).catch(giveUp);
    const server =
      loads === undefined || lm === undefined
        ? createServer(sourcesOf(called, pinned, load), {
            ...settings,
            embedders,
            ...(memory === undefined ? {} : { memory }),
            ...(keepAlive === undefined ? {} : { keepAlive }),
            tell,
          })
        : createServer(lm, {
            ...settings,
            ...(guesser === undefined ? {} : { draft: guesser }),
            embedders,
            ...prefixes,
            reload: () => loads.load(),
            tell,
          });
    const listening = await listen(server, host, numberOf(options, "port") ?? 8080).catch(giveUp);
    if (!isLocal(host) && settings.apiKeys?.length === 0)
      console.error(
        `insitu: warning: ${host} can be reached by other machines, and no key is required; give --api-key-file or INSITU_API_KEY`,
      );
    try {
      await server.ready;
      console.log(`listening on ${listening.address}`);
      if (options["quiet"] !== true) console.log(servedText(called, await lm, listening.address));
      await untilTold(server, listening, (numberOf(options, "drain") ?? 30) * 1000, options["quiet"] !== true);
      return 0;
    } finally {
      await server.close();
      await listening.close();
      for (const each of Object.values(embedders)) await each.release();
      await guesser?.release();
      await lm?.then(
        (loaded: CausalLM) => loaded.release(),
        () => {},
      );
    }
  },
};

/** Loads a model, and again as it was: on the backend that was taken the first time. */
class ModelLoads {
  readonly #load: (backend: { readonly backend?: string }) => Promise<CausalLM>;
  /** The first that could be loaded. */
  readonly first: Promise<CausalLM>;
  #loaded: (lm: CausalLM) => void = () => {};
  #backend: { readonly backend?: string } = {};

  constructor(load: (backend: { readonly backend?: string }) => Promise<CausalLM>) {
    this.#load = load;
    this.first = new Promise((resolve) => void (this.#loaded = resolve));
  }

  async load(): Promise<CausalLM> {
    const lm = await this.#load(this.#backend);
    this.#backend = { backend: lm.session.backend };
    this.#loaded(lm);
    return lm;
  }
}

/** Waits for SIGTERM or Ctrl-C, then for texts to finish. The second one ends the process, as without this. */
async function untilTold(
  server: Server,
  listening: Listening,
  limitMilliseconds: number,
  tells: boolean,
): Promise<void> {
  const signals = ["SIGTERM", "SIGINT"] as const;
  const on = (listener: (signal: string) => void): void => signals.forEach((each) => void process.on(each, listener));
  const off = (listener: (signal: string) => void): void => signals.forEach((each) => void process.off(each, listener));
  const told = await new Promise<string>((resolve) => {
    const hear = (signal: string): void => {
      off(hear);
      resolve(signal);
    };
    on(hear);
  });
  if (tells) console.error(`insitu: ${told}: finishing what is under way, within ${limitMilliseconds / 1000} seconds`);
  const left = (): never => process.exit(1);
  on(left);
  await server.drain(limitMilliseconds);
  await listening.close();
  off(left);
}

type ServerRoom = typeof import("#insitu/serve/server.js");

/** The server's room, which needs packages that the rest does without. */
async function loadServer(): Promise<ServerRoom> {
  try {
    return await import("#insitu/serve/server.js");
  } catch (cause) {
    if ((cause as { readonly code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw cause;
    throw new InsituError(
      "invalid-argument",
      "serving needs packages that are not installed: npm install hono @hono/node-server zod prom-client",
      { cause },
    );
  }
}

/** What is not on the command line may be in the environment: --max-queue is INSITU_MAX_QUEUE. Flags are on at 1 or true. */
function withEnvironment(options: Arguments["options"], environment: NodeJS.ProcessEnv): Arguments["options"] {
  const found = textsIn(environment).flatMap(
    ([name, { value, several = false }, text]): [string, string | boolean][] =>
      several ? [] : [[name, value === undefined ? text === "1" || text === "true" : text]],
  );
  return { ...Object.fromEntries(found), ...options };
}

/** Options that may be given several times, by commas in the environment. */
const listsIn = (environment: NodeJS.ProcessEnv): NonNullable<Arguments["lists"]> =>
  Object.fromEntries(
    textsIn(environment).flatMap(([name, { several = false }, text]) => {
      const parts = text.split(",").map((part) => part.trim());
      return several ? [[name, parts.filter((part) => part !== "")]] : [];
    }),
  );

const textsIn = (environment: NodeJS.ProcessEnv): readonly (readonly [string, CommandOption, string])[] =>
  Object.entries(declared).flatMap(([name, option]) => {
    const text = environment[`INSITU_${name.toUpperCase().replaceAll("-", "_")}`];
    return text === undefined || text === "" ? [] : [[name, option, text] as const];
  });

function serverOptions(
  options: Arguments["options"],
  model: string,
  oneAtATime: ServerRoom["oneAtATime"],
): ServerOptions {
  const counts = {
    openRequests: "max-open",
    newTokens: "max-tokens",
    bodyBytes: "max-body",
    seconds: "timeout",
    priority: "max-priority",
  };
  const limits = Object.fromEntries(
    Object.entries(counts).flatMap(([limit, name]) => {
      const count = numberOf(options, name);
      return count === undefined ? [] : [[limit, count]];
    }),
  );
  const maxQueue = numberOf(options, "max-queue");
  const maxRunning = numberOf(options, "max-running");
  const print = options["json-logs"] === true ? JSON.stringify : lineOf;
  return {
    model,
    apiKeys: keysOf(textOf(options, "api-key-file"), process.env["INSITU_API_KEY"]),
    metricsDialect: (textOf(options, "metrics-dialect") ?? "insitu") as "insitu" | "vllm",
    limits,
    logPrompts: options["log-prompts"] === true,
    sharePrefixes: options["share-prefixes"] === true,
    ...(maxQueue === undefined ? {} : { maxQueue }),
    ...(maxRunning === undefined ? {} : { maxRunning }),
    ...(options["one-at-a-time"] === true ? { engine: (lm) => oneAtATime(lm, maxQueue) } : {}),
    ...(options["quiet"] === true ? {} : { log: (entry) => void process.stderr.write(`${print(entry)}\n`) }),
  };
}

/** Where beginnings of texts are kept, if anywhere. */
function prefixesOf(lm: Promise<CausalLM>, options: Arguments["options"]): ReturnType<typeof openPrefixes> {
  const given: PrefixOptions = {
    folder: textOf(options, "prefix-cache"),
    folderBytes: numberOf(options, "prefix-cache-size"),
    store: textOf(options, "store"),
    secretFile: textOf(options, "store-secret-file"),
    secondsToLive: numberOf(options, "store-ttl"),
    deadlineMilliseconds: numberOf(options, "store-deadline"),
    settings: [textOf(options, "variant"), textOf(options, "cache-type")],
  };
  return openPrefixes(lm, given, options["quiet"] === true ? undefined : teller(options));
}

/** Puts a sentence on standard error. */
function teller(options: Arguments["options"]): (line: string) => void {
  const print =
    options["json-logs"] === true ? (message: string) => JSON.stringify({ message }) : (line: string) => line;
  return (line) => console.error(print(`insitu: ${line}`));
}

function keysOf(file: string | undefined, environment: string | undefined): string[] {
  const lines = file === undefined ? [] : readKeyFile(file).split(/\r?\n/);
  // A comment has a line of its own, or a blank before it: keys may hold the sign.
  const keys = [...lines.map((line) => line.replace(/(^|\s)#.*$/, "")), ...(environment ?? "").split(",")];
  const found = keys.map((key) => key.trim()).filter((key) => key !== "" && !key.startsWith("#"));
  if (file !== undefined && found.length === 0)
    throw new InsituError("invalid-argument", `--api-key-file: there is no key in ${file}`);
  // Unset, or set to nothing, it asks for no keys; what was meant to be one must not open the server to all.
  if (environment !== undefined && environment !== "" && !environment.split(",").some((key) => key.trim() !== ""))
    throw new InsituError("invalid-argument", "INSITU_API_KEY: there is no key in it; unset it to serve without keys");
  return found;
}

function readKeyFile(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new InsituError("invalid-argument", `--api-key-file: ${file} cannot be read: ${(cause as Error).message}`, {
      cause,
    });
  }
}

/** A request in one line for people. */
function lineOf(entry: LogEntry): string {
  const { time, method, path, status, milliseconds, promptTokens, cachedTokens, newTokens, end, error, prompt } = entry;
  const tokens = newTokens === undefined ? "" : `, ${promptTokens} (${cachedTokens} reused) + ${newTokens} tokens`;
  const more = [end, error, prompt === undefined ? undefined : JSON.stringify(prompt)].filter(
    (each) => each !== undefined,
  );
  return `${time} ${method} ${path} ${status} ${milliseconds} ms${tokens}${more.map((each) => `, ${each}`).join("")}`;
}

const isLocal = (host: string): boolean => /^(localhost|127\.\d+\.\d+\.\d+|::1)$/.test(host);

const textOf = (options: Arguments["options"], name: string): string | undefined => {
  const text = options[name];
  return typeof text === "string" ? text : undefined;
};
