/** A language model that a thread runs, and its conversations, as the page sees them: `CausalLM`'s names, without its blocking the page. */
import { checkSignal, optionsOf, optionsWithoutNull } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import { valueText } from "#insitu/base/value-text.js";
import type { BatchToken } from "#insitu/generate/batch.js";
import type { Beam, BeamOptions } from "#insitu/generate/beams.js";
import type { LoadLanguageModelOptions } from "#insitu/generate/causal-lm.js";
import { chatArguments, replyTo } from "#insitu/generate/chat.js";
import { type ChatOptions, chatOptionNames } from "#insitu/generate/chat-options.js";
import { beamSearchOptionNames } from "#insitu/generate/beam-option-names.js";
import { type AnyChatMessage, checkMessages } from "#insitu/generate/messages.js";
import type { GeneratedObject, ObjectOptions, ObjectStream } from "#insitu/generate/object.js";
import { type GenerateOptions, generateOptionNames, type ModelDefaults } from "#insitu/generate/options.js";
import type { Prompt } from "#insitu/generate/prompt-items.js";
import type { ObjectSchema } from "#insitu/dialogue/standard-schema.js";
import type { EncodeOptions } from "#insitu/generate/tokenizer.js";
import type { HubOptions } from "#insitu/hub/models-api.js";
import type { SessionExplanation } from "#insitu/session/session.js";
import { splitOptions } from "./crossing.js";
import { Link, type StartThread } from "./link.js";
import type { ModelFacts, PagesDescription } from "./messages.js";
import { crossingChat, RemoteChat, type RemoteReply } from "./remote-chat.js";
import { crossingOptions, remoteBatch, RemoteGeneration } from "./remote-generation.js";
import { RemoteTokenizer } from "./remote-tokenizer.js";

/** The most texts that one prompt is continued to at once: the page counts them before it asks. */
const mostSamples = 65_536;

/** A model in a thread of its own. */
export class RemoteModel {
  readonly #link: Link;
  readonly #facts: ModelFacts;
  /** What makes tokens of text, and text of tokens. */
  readonly tokenizer: RemoteTokenizer;

  protected constructor({ link, facts }: { readonly link: Link; readonly facts: ModelFacts }) {
    this.#link = link;
    this.#facts = facts;
    this.tokenizer = new RemoteTokenizer(link, facts);
  }

  /** Starts a thread and loads the model there; the thread ends where that fails, or where the signal of a download comes. */
  protected static async prepare(
    start: StartThread,
    source: string | object | undefined,
    options: (LoadLanguageModelOptions & { readonly hub?: HubOptions }) | undefined,
    base: string | undefined,
  ): Promise<{ readonly link: Link; readonly facts: ModelFacts }> {
    const { signal, ...hub } = options?.hub ?? {};
    checkSignal(signal);
    signal?.throwIfAborted();
    const split = splitOptions("the options of CausalLM.load", signal === undefined ? options : { ...options, hub });
    const link = new Link(start);
    const stop = (): void => link.end();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      if (base !== undefined) link.send({ kind: "base", url: base });
      const given = { source: source instanceof URL ? source.href : source, options: split.options };
      return { link, facts: await link.ask("loadModel", given, { listeners: split.listeners }) };
    } catch (error) {
      link.end();
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /** The backend that runs it: where it was loaded with backend "auto", the one that was found. */
  get backend(): string {
    return this.#facts.backend;
  }

  /** Tokens that prompt and text may take together. */
  get contextLength(): number {
    return this.#facts.contextLength;
  }

  /** How many tokens there are to choose from. */
  get vocabulary(): number {
    return this.#facts.vocabulary;
  }

  /** The contents of the model's config.json. */
  get config(): Readonly<Record<string, unknown>> {
    return this.#facts.config;
  }

  /** True if messages are written by the model's own template. */
  get hasChatTemplate(): boolean {
    return this.#facts.hasChatTemplate;
  }

  /** How the model wants to be used: its sampling, and the tokens that end a text. */
  get defaults(): ModelDefaults {
    return this.#facts.defaults;
  }

  /** Continues a prompt: iterate over the result for tokens with their text. What is wrong with a prompt is told there. */
  generate(prompt: Prompt, options?: GenerateOptions): RemoteGeneration {
    return RemoteGeneration.begin(this.#link, "the options of generate", options, (stream, plain) =>
      this.#link.send({ kind: "generate", stream, prompt, options: plain }),
    );
  }

  /** An object that a schema of zod, valibot or arktype, or a JSON Schema, allows. Throws "unfinished" if the text was cut. */
  async generateObject<T>(
    schema: ObjectSchema<T>,
    prompt: Prompt,
    options?: ObjectOptions,
  ): Promise<GeneratedObject<T>> {
    const { generateObject } = await import("#insitu/generate/object.js");
    return generateObject(schema, options, (text) => this.generate(prompt, text));
  }

  /** The same while it is generated: iterate over the result for the object so far. What makes objects is loaded first. */
  async streamObject<T>(schema: ObjectSchema<T>, prompt: Prompt, options?: ObjectOptions): Promise<ObjectStream<T>> {
    const { streamObject } = await import("#insitu/generate/object.js");
    return streamObject(schema, options, (text) => this.generate(prompt, text));
  }

  /** Continues several prompts at once; tokens of all texts come as they are made. What is wrong with a prompt is told there. */
  generateBatch(prompts: readonly Prompt[], options?: GenerateOptions): AsyncGenerator<BatchToken, void, undefined> {
    const { plain, signal } = crossingOptions("the options of generateBatch", options, generateOptionNames);
    const stream = this.#link.next();
    this.#link.send({ kind: "batch", stream, prompts, options: plain });
    return remoteBatch(this.#link, stream, signal);
  }

  /** Several texts for one prompt, which is read here, once: each text goes on from its own fork of the caches, with its own seed. */
  async samples(prompt: Prompt, count: number, options?: GenerateOptions): Promise<RemoteGeneration[]> {
    if (!Number.isSafeInteger(count) || count < 1 || count > mostSamples)
      throw new InsituError(
        "invalid-argument",
        `option count must be a whole number from 1 to ${mostSamples}, got ${valueText(count)}`,
        { as: "RangeError" },
      );
    const { plain, signal } = crossingOptions("the options of samples", options, generateOptionNames);
    const streams = Array.from({ length: count }, () => this.#link.next());
    await this.#link.ask("samples", { streams, prompt, options: plain }, { signal });
    return streams.map((stream) => new RemoteGeneration(this.#link, stream, signal));
  }

  /** The likeliest texts as a whole, best first. Sampling options have no say. */
  async beamSearch(
    prompt: Prompt,
    options?: GenerateOptions & Partial<BeamOptions>,
  ): Promise<readonly (Beam & { readonly text: string })[]> {
    const { plain, signal } = crossingOptions("the options of beamSearch", options, beamSearchOptionNames);
    return this.#link.ask("beamSearch", { prompt, options: plain }, { signal });
  }

  /** What the latest generation has read, as bytes: caches and tokens. */
  saveContext(): Promise<Uint8Array> {
    return this.#link.ask("saveContext", {});
  }

  /** Takes over a saved context: prompts that begin as it does are not read again. */
  restoreContext(bytes: Uint8Array): Promise<void> {
    return this.#link.ask("restoreContext", { bytes });
  }

  /** A conversation of several turns; `opening` is what was said before, a system message for one. */
  chat(opening?: readonly AnyChatMessage[] | ChatOptions, options?: ChatOptions): RemoteChat {
    const [said, given] = chatArguments(opening, options);
    checkMessages(said);
    return RemoteChat.open(this.#link, said, given);
  }

  /** Answers a conversation whose messages you keep yourself, with tools and reasoning. Tools run here, not in the thread. */
  reply(messages: readonly AnyChatMessage[], options?: ChatOptions): RemoteReply {
    const given = optionsWithoutNull("the options of reply", options, chatOptionNames);
    checkMessages(messages);
    return replyTo(messages, given, (said, of) =>
      RemoteGeneration.begin(
        this.#link,
        "the options of reply",
        crossingChat(of),
        (stream, plain) => this.#link.send({ kind: "reply", stream, messages: said, options: plain }),
        chatOptionNames,
      ),
    );
  }

  /** The tokens of a text. */
  encode(text: string, options?: EncodeOptions): Promise<readonly number[]> {
    return this.tokenizer.encode(text, options);
  }

  /** The text of tokens. */
  decode(tokens: readonly number[]): Promise<string> {
    return this.tokenizer.decode(tokens);
  }

  /** The plan that runs the model, as text, or as data that tools read. */
  explain(): Promise<string>;
  explain(options: { readonly json: true }): Promise<SessionExplanation>;
  async explain(options?: { readonly json?: boolean }): Promise<string | SessionExplanation> {
    const { json } = optionsOf("the options of explain", options, { json: true });
    return this.#link.ask("explain", { json: json === true });
  }

  /** The blocks of the pages that texts lie on, and who has them; undefined unless the model was loaded with cache: "paged". */
  pages(): Promise<PagesDescription | undefined> {
    return this.#link.ask("pages", {});
  }

  /** Lets go of the model and ends its thread. */
  release(): Promise<void> {
    return this.#link.release();
  }
}
