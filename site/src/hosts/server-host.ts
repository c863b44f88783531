/** A server as the page's host: OpenAI's API with streams, and what insitu's own paths tell of the cache. Asks nobody but where the page came from. */
import { signal } from "@preact/signals";
import { apiKey } from "../state/key.js";
import { bytesText } from "../words.js";
import type {
  Asked,
  CacheFacts,
  CacheVerdict,
  DrawnToken,
  Finish,
  Host,
  HostState,
  ModelFacts,
  Sampling,
  ServedChoice,
  TextEvent,
  TextStats,
} from "./host.js";

/** How often a server that went away is looked for. */
const lookMilliseconds = 1000;

interface ChatToken {
  readonly token: string;
  readonly logprob: number;
  readonly top_logprobs?: readonly { readonly token: string; readonly logprob: number }[];
}

interface Chunk {
  readonly error?: { readonly message: string };
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number };
  } | null;
  readonly choices?: readonly {
    readonly text?: string;
    readonly delta?: {
      readonly content?: string | null;
      readonly reasoning_content?: string | null;
      readonly tool_calls?: readonly {
        readonly index: number;
        readonly function?: { readonly name?: string; readonly arguments?: string };
      }[];
    };
    readonly finish_reason?: Finish | null;
    readonly logprobs?: {
      readonly content?: readonly ChatToken[] | null;
      readonly tokens?: readonly string[];
      readonly token_logprobs?: readonly number[];
      readonly top_logprobs?: readonly Readonly<Record<string, number>>[];
    } | null;
  }[];
}

/** An answer that is none. */
class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const samplingBody = (given: Sampling): object => ({
  temperature: given.temperature,
  top_p: given.topP,
  top_k: given.topK,
  min_p: given.minP,
  repetition_penalty: given.repetitionPenalty,
  presence_penalty: given.presencePenalty,
  frequency_penalty: given.frequencyPenalty,
  seed: given.seed,
  max_tokens: given.maxTokens,
  min_tokens: given.minTokens,
  stop: given.stop,
  ...(given.jsonSchema === undefined
    ? {}
    : {
        response_format: {
          type: "json_schema",
          json_schema: { name: "answer", schema: given.jsonSchema, strict: true },
        },
      }),
});

/** The tokens of a chunk, where probabilities were asked for. */
function tokensOf(logprobs: NonNullable<Chunk["choices"]>[number]["logprobs"]): readonly DrawnToken[] | undefined {
  if (logprobs?.content)
    return logprobs.content.map(({ token, logprob, top_logprobs = [] }) => ({
      text: token,
      probability: Math.exp(logprob),
      top: top_logprobs.map((each) => ({ text: each.token, probability: Math.exp(each.logprob) })),
    }));
  return logprobs?.tokens?.map((text, at) => ({
    text,
    probability: Math.exp(logprobs.token_logprobs?.[at] ?? 0),
    top: Object.entries(logprobs.top_logprobs?.[at] ?? {}).map(([each, logprob]) => ({
      text: each,
      probability: Math.exp(logprob),
    })),
  }));
}

/** Where the choice among several models is kept. */
const modelPlace = "insitu-served-model";

/** What a server with several models tells of one. */
function aboutServed({ state, memory_bytes: bytes }: Readonly<Record<string, unknown>>): string {
  const words = { ready: "loaded", loading: "is being loaded", leaving: "makes room", lost: "was lost" };
  const isLoaded =
    state === undefined ? "loaded" : (words[state as keyof typeof words] ?? "is loaded when it is asked");
  return typeof bytes === "number" ? `${isLoaded} · ${bytesText(bytes)} of memory` : isLoaded;
}

export class ServerHost implements Host {
  readonly kind = "server";
  readonly state = signal<HostState>({ kind: "starting" });
  readonly model = signal<ModelFacts | undefined>(undefined);
  readonly served = {
    choices: signal<readonly ServedChoice[]>([]),
    choose: async (id: string): Promise<void> => {
      localStorage.setItem(modelPlace, id);
      await this.start();
    },
  };
  #looking: ReturnType<typeof setTimeout> | undefined;

  async start(): Promise<void> {
    clearTimeout(this.#looking);
    try {
      const { data } = (await (await this.#fetch("v1/models")).json()) as {
        readonly data: readonly Readonly<Record<string, unknown>>[];
      };
      const all = data.filter((each) => each["task"] === undefined);
      const wanted = localStorage.getItem(modelPlace);
      const told = all.find(({ id }) => id === wanted) ?? all[0];
      this.served.choices.value = all.map((each) => ({ id: String(each["id"]), about: aboutServed(each) }));
      const own = (told["insitu"] ?? {}) as {
        readonly chat_template?: boolean;
        readonly backend?: string;
        readonly sampling?: Sampling;
      };
      this.model.value = {
        name: String(told["id"]),
        ...(told["max_model_len"] === undefined ? {} : { context: Number(told["max_model_len"]) }),
        hasTemplate: own.chat_template ?? true,
        ...(own.backend === undefined ? {} : { backend: own.backend }),
        defaults: own.sampling ?? {},
      };
      this.state.value = { kind: "ready" };
    } catch (error) {
      const status = error instanceof Refusal ? error.status : 0;
      this.state.value = {
        kind: "failed",
        why:
          status === 0 ? "The server does not answer. This page asks again until it does." : (error as Error).message,
        wayOut: status === 401 ? "key" : "retry",
      };
      if (status === 0 || status === 503) this.#looking = setTimeout(() => void this.start(), lookMilliseconds);
    }
  }

  async *ask(asked: Asked, signal: AbortSignal): AsyncGenerator<TextEvent, void, undefined> {
    const began = performance.now();
    let [first, latest, made] = [0, 0, 0];
    let stats: TextStats | undefined;
    const response = await this.#begin(asked, signal);
    for await (const chunk of this.#chunks(response)) {
      // A server that ends may say so, and be gone then.
      if (chunk.error !== undefined) throw this.#gone(chunk.error.message);
      const choice = chunk.choices?.[0];
      const { delta } = choice ?? {};
      const tokens = tokensOf(choice?.logprobs);
      const text = delta?.content ?? choice?.text ?? "";
      const reasoning = delta?.reasoning_content ?? "";
      if (text !== "" || reasoning !== "" || delta?.tool_calls !== undefined) {
        latest = performance.now();
        if (first === 0) first = latest;
        made += tokens?.length ?? 1;
      }
      if (reasoning !== "") yield { kind: "reasoning", text: reasoning };
      if (text !== "") yield { kind: "text", text, ...(tokens === undefined ? {} : { tokens }) };
      for (const { index, function: call } of delta?.tool_calls ?? [])
        yield {
          kind: "call",
          index,
          ...(call?.name === undefined ? {} : { name: call.name }),
          arguments: call?.arguments ?? "",
        };
      if (choice?.finish_reason) yield { kind: "finish", finish: choice.finish_reason };
      const { usage } = chunk;
      const counted = usage?.completion_tokens ?? made;
      const seconds = (latest - first) / 1000;
      stats = {
        promptTokens: usage?.prompt_tokens ?? stats?.promptTokens ?? 0,
        reusedTokens: usage?.prompt_tokens_details?.cached_tokens ?? stats?.reusedTokens ?? 0,
        newTokens: counted,
        firstTokenMilliseconds: first === 0 ? 0 : first - began,
        // What comes all at once has no speed.
        tokensPerSecond: seconds > 0.02 ? (counted - 1) / seconds : 0,
      };
      yield { kind: "stats", stats };
    }
    // A model that was loaded for this answer tells of itself now.
    if (this.model.value?.context === undefined) void this.start();
  }

  async cache(): Promise<CacheFacts | undefined> {
    const told = (await (await this.#fetch(`v1/cache${this.#asked}`)).json()) as {
      readonly block_size: number;
      readonly row_bytes: number;
      readonly uses: string;
      readonly rows: readonly number[];
      readonly texts: readonly { readonly id: string; readonly rows: number; readonly blocks: readonly number[] }[];
    };
    if (told.uses === "") return undefined;
    const words = { ".": "free", k: "kept", o: "own", s: "shared", x: "other" } as const;
    return {
      blockSize: told.block_size,
      rowBytes: told.row_bytes,
      blocks: Array.from(told.uses, (use, at) => ({ use: words[use as keyof typeof words], rows: told.rows[at] })),
      texts: told.texts.map(({ id, rows, blocks }) => ({ name: id, rows, blocks })),
    };
  }

  async verdicts(): Promise<readonly CacheVerdict[]> {
    const { data } = (await (await this.#fetch(`v1/cache/plan${this.#asked}`)).json()) as {
      readonly data: readonly { readonly input: string; readonly in_place: boolean; readonly reason: string }[];
    };
    return data.map(({ input, in_place, reason }) => ({ input, inPlace: in_place, words: reason }));
  }

  /** Which model's cache is looked at. */
  get #asked(): string {
    return `?model=${encodeURIComponent(this.model.value?.name ?? "")}`;
  }

  /** Asks for the text. One that goes on from a part of an answer is a completion of the conversation's tokens. */
  async #begin(
    { messages, prompt, partial: begun, after, sampling, probabilities }: Asked,
    signal: AbortSignal,
  ): Promise<Response> {
    const behind = after?.map(({ text }) => text).join("");
    const partial = begun === undefined && behind === undefined ? undefined : `${begun ?? ""}${behind ?? ""}`;
    const model = this.model.value?.name;
    const common = { model, ...samplingBody(sampling), stream: true, stream_options: { include_usage: true } };
    if (messages !== undefined && partial === undefined)
      return this.#fetch("v1/chat/completions", {
        body: {
          messages,
          ...common,
          tools: sampling.tools,
          ...(probabilities ? { logprobs: true, top_logprobs: 5 } : {}),
        },
        signal,
      });
    let text: string | readonly number[] = (prompt ?? "") + (behind ?? "");
    if (messages !== undefined) {
      const read = async (body: object): Promise<readonly number[]> =>
        (
          (await (await this.#fetch("tokenize", { body: { model, ...body }, signal })).json()) as {
            readonly tokens: readonly number[];
          }
        ).tokens;
      text = [...(await read({ messages })), ...(await read({ prompt: partial, add_special_tokens: false }))];
    }
    return this.#fetch("v1/completions", {
      body: { prompt: text, ...common, ...(probabilities ? { logprobs: 5 } : {}) },
      signal,
    });
  }

  async *#chunks(response: Response): AsyncGenerator<Chunk, void, undefined> {
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let isWhole = false;
    try {
      for (let rest = ""; ;) {
        const { done, value } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop()!;
        for (const line of lines) {
          if (line === "data: [DONE]") isWhole = true;
          else if (line.startsWith("data: ")) yield JSON.parse(line.slice(6)) as Chunk;
        }
      }
    } catch (error) {
      if ((error as Error).name === "AbortError") throw error;
      throw this.#gone("The server went away in the middle of this answer.");
    } finally {
      reader.cancel().catch(() => {});
    }
    if (!isWhole) throw this.#gone("The server ended this answer before it was whole.");
  }

  /** The error of a server that is not there; it is looked for from now on. */
  #gone(message: string): Error {
    void this.start();
    return new Error(message);
  }

  async #fetch(
    path: string,
    { body, signal }: { readonly body?: object; readonly signal?: AbortSignal } = {},
  ): Promise<Response> {
    const headers = {
      "content-type": "application/json",
      ...(apiKey.value === "" ? {} : { authorization: `Bearer ${apiKey.value}` }),
    };
    const init = {
      headers,
      ...(signal === undefined ? {} : { signal }),
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    };
    let response: Response;
    try {
      response = await fetch(path, init);
    } catch (error) {
      if ((error as Error).name === "AbortError" || path === "v1/models") throw error;
      throw this.#gone("The server does not answer.");
    }
    if (response.ok) return response;
    const told = (await response.json().catch(() => undefined)) as
      | { readonly error?: { readonly message?: string } }
      | undefined;
    const refusal = new Refusal(
      response.status,
      told?.error?.message?.replace(/^(messages|prompt): /, "") ?? `the server answered with status ${response.status}`,
    );
    if (response.status === 401 && path !== "v1/models") void this.start();
    throw refusal;
  }
}
