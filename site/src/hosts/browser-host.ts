/** This browser as the page's host: a model in a worker, on WASM or WebGPU. What it loads is kept by the library; nothing that is said leaves the page. */
import { signal } from "@preact/signals";
import {
  CausalLM,
  type ChatMessage,
  type ChatOptions,
  type ChatReply,
  type ChatToken,
  type GeneratedToken,
} from "insitu/worker";
import { bytesText } from "../words.js";
import type {
  Asked,
  CacheFacts,
  CacheVerdict,
  DrawnToken,
  Host,
  HostState,
  ModelChoice,
  ModelFacts,
  ModelShelf,
  SaidMessage,
  Sampling,
  TextEvent,
  TextStats,
} from "./host.js";

/** The model that comes with the page. */
const own = { id: "tales", url: new URL("models/embedded", document.baseURI).href };

const tales: ModelChoice = {
  id: own.id,
  title: "Fairy tales",
  about: "Comes with this page · continues tales, no chat",
  bytes: 11_400_000,
  isStored: false,
  isRemovable: false,
};

const lastPlace = "insitu-model";
const backendPlace = "insitu-backend";

type Backend = "auto" | "wasm" | "webgpu";

/** Finish reasons in OpenAI's words. */
const finishes = { end: "stop", stop: "stop", length: "length", context: "length", unfinished: "length" } as const;

/** A tool in OpenAI's form. */
interface OpenAITool {
  readonly function: { readonly name: string } & NonNullable<ChatOptions["tools"]>[string];
}

const optionsOf = ({ jsonSchema, ...sampling }: Omit<Sampling, "tools">): ChatOptions => ({
  ...sampling,
  ...(jsonSchema === undefined ? {} : { jsonSchema: jsonSchema as NonNullable<ChatOptions["jsonSchema"]> }),
});

/** Tools by name; calls of them are shown, and nobody runs them. */
const toolsOf = (tools: readonly object[] | undefined): Pick<ChatOptions, "tools"> =>
  tools === undefined
    ? {}
    : {
        tools: Object.fromEntries(
          (tools as readonly OpenAITool[]).map(({ function: { name, description, parameters, strict } }) => [
            name,
            { description, parameters, strict },
          ]),
        ),
      };

/** Room on this device, as far as browsers tell. */
const memoryBytes = ((navigator as { readonly deviceMemory?: number }).deviceMemory ?? 8) * 2 ** 30;

const modelsOf = async (): Promise<typeof import("./kept-models.js").models> =>
  (await import("./kept-models.js")).models;

/** True where WebGPU is software or nothing: what computes on it is not fetched then. */
async function lacksGpu(): Promise<boolean> {
  const { gpu } = navigator as { readonly gpu?: { requestAdapter(): Promise<{ readonly info?: object } | null> } };
  const adapter = await gpu?.requestAdapter().catch(() => null);
  return (
    adapter === undefined ||
    adapter === null ||
    (adapter.info as { isFallbackAdapter?: boolean })?.isFallbackAdapter === true
  );
}

class Shelf implements ModelShelf {
  readonly choices = signal<readonly ModelChoice[]>([tales]);
  /** True once somebody looked. */
  #isLookedAt = false;
  readonly current = signal<string | undefined>(undefined);
  readonly backend = signal<Backend>((localStorage.getItem(backendPlace) as Backend | null) ?? "auto");
  readonly storage = signal("");
  /** What was handed in or named by the visitor, by id. */
  readonly #given = new Map<
    string,
    { readonly title: string; readonly about: string; readonly folder?: FileSystemDirectoryHandle | readonly File[] }
  >();
  readonly #host: BrowserHost;

  constructor(host: BrowserHost) {
    this.#host = host;
  }

  /** Looks at what there is. The library's list of models is fetched then, and not before somebody looks. */
  async refresh(): Promise<void> {
    this.#isLookedAt = true;
    const models = await modelsOf();
    const kept = await models.list().catch(() => []);
    const { kind, usedBytes, freeBytes } = await models
      .storage()
      .catch(() => ({ kind: "none", usedBytes: 0, freeBytes: undefined }));
    this.storage.value =
      kind === "none"
        ? "This browser keeps no models for this page."
        : `${bytesText(usedBytes)} kept in this browser${freeBytes === undefined ? "" : `, room for ${bytesText(freeBytes)} more`}.`;
    const isKept = (name: string): boolean => kept.some((each) => each.name === name || each.name === `${name}`);
    const catalogue: ModelChoice[] = models.catalogue.map(
      ({ name, title, repository, parameters, chat, thinking, tools, variants }) => {
        const bytes = (variants.find((each) => each.name.startsWith("q4")) ?? variants[0])?.bytes;
        const can = [chat ? "chat" : "text", ...(thinking ? ["reasoning"] : []), ...(tools ? ["tools"] : [])].join(
          ", ",
        );
        const stored = isKept(repository);
        return {
          id: name,
          title,
          about: `${(parameters / 1e9).toFixed(parameters < 1e9 ? 2 : 1)} B parameters · ${can}`,
          ...(bytes === undefined ? {} : { bytes }),
          ...(bytes !== undefined && bytes * 1.3 > memoryBytes
            ? { tooLarge: `needs about ${bytesText(bytes * 1.3)} of memory` }
            : bytes !== undefined && !stored && freeBytes !== undefined && bytes > freeBytes
              ? { tooLarge: `needs ${bytesText(bytes)} of storage, ${bytesText(freeBytes)} are free` }
              : {}),
          isStored: stored,
          isRemovable: stored,
        };
      },
    );
    const known = new Set([own.url, ...models.catalogue.map(({ repository }) => repository)]);
    const others: ModelChoice[] = kept
      .filter(({ name }) => !known.has(name))
      .map(({ name, bytes }) => ({
        id: name,
        title: name,
        about: "kept in this browser",
        bytes,
        isStored: true,
        isRemovable: true,
      }));
    const given: ModelChoice[] = [...this.#given]
      .filter(([id]) => !others.some((other) => other.id === id))
      .map(([id, { title, about }]) => ({ id, title, about, isStored: false, isRemovable: false }));
    const isOwnKept = isKept(own.url);
    this.choices.value = [{ ...tales, isStored: isOwnKept, isRemovable: isOwnKept }, ...given, ...others, ...catalogue];
  }

  async load(id: string): Promise<void> {
    const given = this.#given.get(id);
    localStorage.setItem(lastPlace, given?.folder === undefined ? id : own.id);
    localStorage.setItem(backendPlace, this.backend.value);
    await this.#host.load(
      id,
      given?.folder ?? (id === own.id ? own.url : id),
      given?.title ?? this.choices.value.find((each) => each.id === id)?.title ?? id,
    );
    if (this.#isLookedAt) await this.refresh();
  }

  stop(): void {
    this.#host.stopLoading();
  }

  async remove(id: string): Promise<void> {
    const models = await modelsOf();
    await models.remove(id === own.id ? own.url : id);
    await this.refresh();
  }

  addFolder(folder: FileSystemDirectoryHandle | readonly File[]): string {
    const title = "name" in folder ? folder.name : (folder[0]?.webkitRelativePath.split("/")[0] ?? "folder");
    const id = `folder:${title}`;
    this.#given.set(id, { title, about: "A folder of this machine", folder });
    void this.refresh();
    return id;
  }

  addName(name: string): string {
    this.#given.set(name, { title: name, about: /^https?:/.test(name) ? "By its URL" : "On the Hugging Face hub" });
    void this.refresh();
    return name;
  }

  async persist(): Promise<boolean> {
    return (await modelsOf()).persist();
  }
}

export class BrowserHost implements Host {
  readonly kind = "browser";
  readonly state = signal<HostState>({ kind: "starting" });
  readonly model = signal<ModelFacts | undefined>(undefined);
  readonly models: Shelf = new Shelf(this);
  #lm: CausalLM | undefined;
  /** Which load was asked for last. */
  #turn = 0;
  #stopping = new AbortController();

  async start(): Promise<void> {
    const last = new URLSearchParams(location.search).get("model") ?? localStorage.getItem(lastPlace) ?? own.id;
    if (last !== own.id) await this.models.refresh();
    if (last !== own.id && !this.models.choices.value.some(({ id }) => id === last)) this.models.addName(last);
    await this.models.load(last);
  }

  stopLoading(): void {
    this.#turn++;
    this.#stopping.abort();
    this.state.value =
      this.#lm === undefined
        ? {
            kind: "failed",
            why: "Loading was stopped. What came is kept, and loading goes on from there.",
            wayOut: "models",
          }
        : { kind: "ready" };
  }

  async load(id: string, source: string | FileSystemDirectoryHandle | readonly File[], title: string): Promise<void> {
    const turn = ++this.#turn;
    this.#stopping.abort();
    this.#stopping = new AbortController();
    this.state.value = { kind: "loading", what: title, loaded: 0, total: 0 };
    const before = this.#lm;
    this.#lm = undefined;
    this.model.value = undefined;
    try {
      await before?.release();
      const { signal } = this.#stopping;
      const lm = await this.#open(source, signal, (loaded, total) => {
        if (turn === this.#turn) this.state.value = { kind: "loading", what: title, loaded, total };
      });
      if (turn !== this.#turn) return void lm.release();
      this.#lm = lm;
      const { sampling } = lm.defaults;
      this.model.value = {
        name: title,
        context: lm.contextLength,
        hasTemplate: lm.hasChatTemplate,
        backend: lm.backend,
        defaults: sampling as Sampling,
      };
      this.models.current.value = id;
      this.state.value = { kind: "ready" };
    } catch (error) {
      if (turn === this.#turn) this.state.value = { kind: "failed", why: (error as Error).message, wayOut: "models" };
    }
  }

  /** Loads on pages, which branches share; a model that does not lie on pages has a cache of rows. */
  async #open(
    source: string | FileSystemDirectoryHandle | readonly File[],
    signal: AbortSignal,
    onProgress: (loaded: number, total: number) => void,
  ): Promise<CausalLM> {
    const asked = this.models.backend.value;
    const backend = asked === "auto" && (await lacksGpu()) ? "wasm" : asked;
    const common = { backend, onProgress, onFallback: (): void => {}, hub: { signal } };
    const given = source as string;
    try {
      return await CausalLM.load(given, { ...common, cache: "paged", keep: 8 });
    } catch (error) {
      if (!/paged|pages/.test((error as Error).message)) throw error;
      return CausalLM.load(given, { ...common, keep: 2 });
    }
  }

  async *ask(asked: Asked, signal: AbortSignal): AsyncGenerator<TextEvent, void, undefined> {
    const lm = this.#lm;
    if (lm === undefined) throw new Error("No model is loaded: choose one under Models.");
    const { tools, ...sampling } = asked.sampling;
    const options = { ...optionsOf(sampling), signal, ...(asked.probabilities ? { logprobs: 5 } : {}) };
    const text = await this.#begin(lm, asked, options, tools);
    let calls = 0;
    let silent: number[] = [];
    for await (const token of text) {
      const ids = [...silent, token.token];
      const drawn = { ...(token.logprob === undefined ? {} : withAlternatives(lm, token)), ids };
      silent = ids;
      for (const event of token.events ?? [{ kind: "text" as const, text: token.text }])
        switch (event.kind) {
          case "text":
            if (event.text === "") break;
            yield { kind: "text", text: event.text, tokens: [{ ...drawn, text: event.text }] };
            silent = [];
            break;
          case "reasoning":
            yield event;
            break;
          case "call":
            yield { kind: "call", index: calls++, name: event.name };
            break;
          case "arguments":
            yield { kind: "call", index: event.call, arguments: event.text };
            break;
          case "call-done":
            break;
          default:
            event satisfies never;
        }
      if (text.summary !== undefined) yield { kind: "stats", stats: statsOf(text.summary) };
    }
    if (text.summary === undefined) return;
    yield { kind: "stats", stats: statsOf(text.summary) };
    yield { kind: "finish", finish: calls > 0 ? "tool_calls" : finishes[text.summary.finishReason] };
  }

  async #begin(
    lm: CausalLM,
    { messages, prompt, partial, after }: Asked,
    options: ChatOptions,
    tools: Sampling["tools"],
  ): Promise<Coming> {
    const behind = after?.flatMap(({ ids }) => ids ?? []) ?? [];
    if (messages === undefined) {
      const given = prompt ?? "";
      return lm.generate(behind.length === 0 ? given : [...(await lm.encode(given)), ...behind], options);
    }
    const said = forModel(messages);
    if (partial === undefined && after === undefined) return lm.reply(said, { ...options, ...toolsOf(tools) });
    const before = lm.hasChatTemplate
      ? await lm.tokenizer.encodeChat(said, tools === undefined ? {} : { tools })
      : await lm.encode(said.map(({ content }) => `${content}\n`).join(""), { controlTokens: "plain" });
    const begun = await lm.encode(partial ?? "", { specialTokens: false, controlTokens: "plain" });
    return lm.generate([...before, ...begun, ...behind], {
      minTokens: 1,
      ...(lm.hasChatTemplate ? {} : { stop: "\n" }),
      ...options,
    });
  }

  async cache(): Promise<CacheFacts | undefined> {
    const pages = await this.#lm?.pages();
    if (pages === undefined) return undefined;
    const texts = new Map<string, { rows: number; readonly blocks: number[] }>();
    for (const { block, holders, rows } of pages.blocks)
      for (const { sequence, column } of holders) {
        const text = texts.get(sequence) ?? { rows: 0, blocks: [] };
        text.blocks[column] = block;
        text.rows = Math.max(text.rows, column * pages.statistics.blockSize + rows);
        texts.set(sequence, text);
      }
    return {
      blockSize: pages.statistics.blockSize,
      rowBytes: pages.blockBytes / pages.statistics.blockSize,
      blocks: pages.blocks.map(({ state, references, rows }) => ({
        use: state === "used" ? (references > 1 ? "shared" : "own") : state,
        rows,
      })),
      texts: [...texts].map(([name, { rows, blocks }]) => ({ name, rows, blocks })),
    };
  }

  async verdicts(): Promise<readonly CacheVerdict[]> {
    const told = await this.#lm?.explain({ json: true });
    return told?.caches.map(({ input, inPlace, reason }) => ({ input, inPlace, words: reason })) ?? [];
  }
}

/** What else could have come. Spelling asks the worker, which computes: that waits until somebody looks. */
function withAlternatives(lm: CausalLM, { logprob, top = [] }: GeneratedToken): Omit<DrawnToken, "text"> {
  const alternatives = top.map((each) => ({ text: "", probability: Math.exp(each.logprob), token: each.token }));
  return {
    probability: Math.exp(logprob!),
    top: alternatives,
    spell: async () => {
      for (const each of alternatives) each.text ||= await lm.decode([each.token]);
    },
  };
}

/** A text, or the reply to messages. */
type Coming = AsyncIterable<ChatToken> & { readonly summary: Summary | undefined };

type Summary = ChatReply["summary"];

const forModel = (messages: readonly SaidMessage[]): ChatMessage[] =>
  messages.map(({ role, content }) => ({ role, content }));

const statsOf = (summary: Summary): TextStats => ({
  promptTokens: summary.promptTokens,
  reusedTokens: summary.reusedTokens,
  newTokens: summary.newTokens,
  firstTokenMilliseconds: summary.firstTokenMilliseconds,
  tokensPerSecond: summary.tokensPerSecond,
  writtenBytes: summary.writtenBytes,
  movedBytes: summary.movedBytes,
  copyingBytes: summary.copyingBytes,
  seed: summary.seed,
});
