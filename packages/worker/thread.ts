/** The thread's end of the line: does what the page asks with one model. Knows neither browsers nor Node; each hands in how it loads and posts. */
import { InsituError, unreachable } from "#insitu/base/error.js";
import type { LanguageModel, LoadLanguageModelOptions } from "#insitu/generate/causal-lm.js";
import type { Chat } from "#insitu/generate/chat.js";
import type { LoadEmbeddingOptions, TextEmbedder } from "#insitu/embedding/text-embedder.js";
import type { SessionOptions } from "#insitu/session/options.js";
import type { Session } from "#insitu/session/session.js";
import type { State } from "#insitu/session/state.js";
import { type Tensor } from "#insitu/tensor/tensor.js";
import { errorData, joinOptions, tensorData } from "./crossing.js";
import type { Asked, Calls, CrossingTensor, FromThread, StateFacts, ToThread } from "./messages.js";
import { ThreadText } from "./thread-text.js";

/** What a platform gives the thread. */
interface ThreadPlatform {
  loadModel(source: string | object | undefined, options: LoadLanguageModelOptions): Promise<LanguageModel>;
  createSession(source: string | Uint8Array | ArrayBufferLike, options: SessionOptions): Promise<Session>;
  loadEmbedder(source: string, options: LoadEmbeddingOptions): Promise<TextEmbedder>;
  /** Takes the page's base for relative URLs; left out where there is none. */
  setBase?(url: string): void;
  post(message: FromThread, transfer: readonly ArrayBufferLike[]): void;
}

type Answers = {
  readonly [Name in keyof Calls]: (given: Parameters<Calls[Name]>[0], id: number, signal: AbortSignal) => unknown;
};

/** A thread that has a model, or will have one. */
export class ModelThread {
  readonly #platform: ThreadPlatform;
  readonly #answers: Answers;
  readonly #texts = new Map<number, ThreadText>();
  /** A conversation, or why it could not be begun. */
  readonly #chats = new Map<number, Chat | { readonly refusal: unknown }>();
  readonly #states = new Map<number, State>();
  /** Questions that are being answered. */
  readonly #asked = new Map<number, AbortController>();
  #model: LanguageModel | undefined;
  #embedder: TextEmbedder | undefined;
  #session: Session | undefined;
  /** What moves with the next answer instead of being copied. */
  #transfer: ArrayBufferLike[] = [];

  constructor(platform: ThreadPlatform) {
    this.#platform = platform;
    this.#answers = this.#makeAnswers();
  }

  /** Does what a message says. */
  hear(message: ToThread): void {
    switch (message.kind) {
      case "ask":
        return void this.#answer(message);
      case "cancel":
        return this.#asked.get(message.id)?.abort();
      case "base":
        return this.#platform.setBase?.(message.url);
      case "generate":
        return this.#begin(message.stream, (signal) =>
          this.#loaded.generate(message.prompt, { ...message.options, signal }),
        );
      case "batch":
        return this.#begin(message.stream, (signal) =>
          this.#loaded.generateBatch(message.prompts, { ...message.options, signal }),
        );
      case "send":
        return this.#begin(message.stream, (signal) =>
          this.#chat(message.chat).send(message.message, { ...message.options, signal }),
        );
      case "reply":
        return this.#begin(message.stream, (signal) =>
          this.#loaded.reply(message.messages, { ...message.options, signal }),
        );
      case "more":
        return this.#texts.get(message.stream)?.allow(message.count);
      case "stop":
        return this.#texts.get(message.stream)?.stop();
      case "chat":
        return this.#openChat(message.chat, () => this.#loaded.chat(message.opening, message.options));
      case "fork":
        return this.#openChat(message.fork, () => this.#chat(message.chat).fork());
      case "rewind": {
        const chat = this.#chats.get(message.chat);
        if (chat !== undefined && "rewindTo" in chat) chat.rewindTo(message.turns);
        return;
      }
      default:
        message satisfies never;
    }
  }

  #openChat(number: number, open: () => Chat): void {
    try {
      this.#chats.set(number, open());
    } catch (refusal) {
      this.#chats.set(number, { refusal });
    }
  }

  #begin(stream: number, make: ConstructorParameters<typeof ThreadText>[2]): void {
    const post = (message: FromThread): void => {
      if (message.kind === "end") this.#texts.delete(stream);
      this.#platform.post(message, []);
    };
    this.#texts.set(stream, new ThreadText(stream, post, make));
  }

  async #answer({ id, name, given }: Asked): Promise<void> {
    const controller = new AbortController();
    this.#asked.set(id, controller);
    try {
      const answer = this.#answers[name] as (given: unknown, id: number, signal: AbortSignal) => unknown;
      const value = await answer(given, id, controller.signal);
      const transfer = this.#transfer;
      this.#transfer = [];
      this.#platform.post({ kind: "answer", id, value }, transfer);
    } catch (error) {
      this.#platform.post({ kind: "refusal", id, error: errorData(error) }, []);
    } finally {
      this.#asked.delete(id);
    }
  }

  #makeAnswers(): Answers {
    const optionsOf = ({ options }: { options: Parameters<typeof joinOptions>[0] }, id: number): object =>
      joinOptions(options, (name, values) => this.#platform.post({ kind: "told", id, name, values }, []));
    return {
      loadModel: async (given, id) => {
        this.#model = await this.#platform.loadModel(given.source, optionsOf(given, id));
        const { session, contextLength, vocabulary, config, defaults, tokenizer } = this.#model;
        this.#session = session;
        const { hasChatTemplate, endToken } = tokenizer;
        return { backend: session.backend, contextLength, vocabulary, config, defaults, hasChatTemplate, endToken };
      },
      createSession: async (given, id) => {
        this.#session = await this.#platform.createSession(given.source, optionsOf(given, id));
        const { backend, inputNames, inputMetadata, outputMetadata } = this.#session;
        return { backend, inputNames, inputMetadata, outputMetadata };
      },
      loadEmbedder: async (given, id) => {
        this.#embedder = await this.#platform.loadEmbedder(given.source, optionsOf(given, id));
        const { session, config, pooling, isCrossEncoder, prompts, maxTokens } = this.#embedder;
        return { backend: session.backend, config, pooling, isCrossEncoder, prompts, maxTokens };
      },
      embed: async ({ texts, options }, _, signal) => {
        const vectors = await this.#embedding.embed(texts, { ...options, signal });
        // Vectors may lie in one memory, which moves once.
        this.#transfer.push(...new Set(vectors.map(({ buffer }) => buffer)));
        return vectors;
      },
      rank: ({ query, documents, options }, _, signal) =>
        this.#embedding.rank(query, documents, { ...options, signal }),
      tokenizer: ({ name, values }) => {
        const { tokenizer } = this.#loaded;
        return (tokenizer[name] as (...given: readonly unknown[]) => unknown).apply(tokenizer, [...values]);
      },
      explain: ({ json }) => (json ? this.#running.explain({ json }) : this.#running.explain()),
      pages: () => {
        const { pages } = this.#loaded;
        if (pages === undefined) return undefined;
        return { statistics: pages.pool.statistics, blockBytes: pages.blockBytes, blocks: pages.pool.describe() };
      },
      samples: async ({ streams, prompt, options }, _, signal) => {
        const texts = await this.#loaded.samples(prompt, streams.length, { ...options, signal });
        for (const [at, stream] of streams.entries()) this.#begin(stream, () => texts[at]);
      },
      beamSearch: ({ prompt, options }, _, signal) => this.#loaded.beamSearch(prompt, { ...options, signal }),
      saveContext: async () => {
        const bytes = await this.#loaded.saveContext();
        this.#transfer.push(bytes.buffer);
        return bytes;
      },
      restoreContext: ({ bytes }) => this.#loaded.restoreContext(bytes),
      releaseChat: ({ chat }) => {
        this.#chat(chat).release();
        this.#chats.delete(chat);
      },
      run: async ({ feeds, fetches, state }) => {
        const used = state === undefined ? undefined : this.#state(state);
        const options = used === undefined ? {} : { state: used };
        const results = await this.#running.run(feeds, fetches, options);
        const crossing = await Promise.all(
          Object.entries(results).map(async ([name, tensor]) => [name, await this.#crossing(tensor)] as const),
        );
        return { results: Object.fromEntries(crossing), state: used && factsOf(used) };
      },
      createState: ({ state, options }) => this.#keep(state, this.#running.createState(options)),
      forkState: ({ state, fork }) => this.#keep(fork, this.#state(state).fork()),
      rewindState: ({ state, length }) => {
        this.#state(state).rewind(length);
        return factsOf(this.#state(state));
      },
      readState: ({ state, name }) => this.#crossing(this.#state(state).get(name), false),
      saveState: ({ state }) => this.#state(state).save(),
      restoreState: async ({ state, bytes }) => {
        await this.#state(state).restore(bytes);
        return factsOf(this.#state(state));
      },
      releaseState: ({ state }) => {
        this.#state(state).release();
        this.#states.delete(state);
      },
      release: async () => {
        for (const text of this.#texts.values()) text.stop();
        await (this.#model ?? this.#embedder ?? this.#session)?.release();
      },
    };
  }

  get #loaded(): LanguageModel {
    return this.#model ?? unreachable("a worker was asked for text before its model was loaded");
  }

  get #embedding(): TextEmbedder {
    return this.#embedder ?? unreachable("a worker was asked for vectors before its model was loaded");
  }

  get #running(): Session {
    return this.#session ?? unreachable("a worker was asked to run before its model was loaded");
  }

  #chat(number: number): Chat {
    const chat = this.#chats.get(number);
    if (chat === undefined) throw new InsituError("released", "the conversation was released");
    if ("refusal" in chat) throw chat.refusal;
    return chat;
  }

  #state(number: number): State {
    const state = this.#states.get(number);
    if (state === undefined) throw new InsituError("invalid-state", "the state was released, or is another session's");
    return state;
  }

  #keep(number: number, state: State): StateFacts {
    this.#states.set(number, state);
    return factsOf(state);
  }

  /** A tensor with its elements; those of a result may move. */
  async #crossing(tensor: Tensor, isOwn = true): Promise<CrossingTensor> {
    const data = (await tensor.getData()) as CrossingTensor["data"];
    return tensorData({ type: tensor.type, data, dims: tensor.dims }, isOwn, this.#transfer);
  }
}

const factsOf = ({ names, lengths }: State): StateFacts => ({ names: [...names], lengths: [...lengths] });
