/** A language model with its tokenizer: the object that users generate text with. `entry/` gives it a `load` that opens files. */
import { InsituError } from "../base/error.js";
import { checkCount, checkRule, optionsWithoutNull } from "../base/arguments.js";
import { valueText } from "../base/value-text.js";
import type { PagedState } from "../cache/paged-state.js";
import type { DraftHead } from "#insitu/heads/draft-head.js";
import type { Session } from "../session/session.js";
import { generateBatch, type BatchToken } from "./batch.js";
import { type Beam, type BeamOptions, beamSearch } from "./beams.js";
import { Chat, chatArguments, type MakeRound, replyTo } from "./chat.js";
import type { ChatReply } from "./chat-reply.js";
import { chatRound } from "./chat-model.js";
import { type ChatOptions, chatOptionNames, checkChatOptions } from "./chat-options.js";
import type { HeldConstraint, TextRule } from "#insitu/choice/constraint.js";
import type { Context } from "../engine/context.js";
import { contextFull } from "../engine/ending.js";
import type { PagedDecoder } from "../engine/paged-decoder.js";
import type { DraftSource } from "../engine/text-ask.js";
import { readTokens } from "../engine/pulled-text.js";
import type { TokenEngine } from "../engine/token-engine.js";
import { ContextPool, type ContextSource } from "./context-pool.js";
import { checkDraft, draftSource, openHead } from "./draft-model.js";
import { HeldGrammars } from "./held-grammars.js";
import { Generation, type Maker, stillWanted, wantsNothing } from "./generation.js";
import { encodeConversation, encodePrompt } from "./encode-prompt.js";
import { beamSearchOptionNames } from "./beam-option-names.js";
import { type AnyChatMessage, checkMessages } from "./messages.js";
import { type GeneratedObject, generateObject, type ObjectOptions, type ObjectStream, streamObject } from "./object.js";
import {
  type GenerateOptions,
  type Generating,
  generateOptionNames,
  type ModelDefaults,
  readGenerating,
  refuseOneConstraint,
  refuseRules,
  requireKnownTokens,
} from "./options.js";
import type { ModelDialogue } from "./model-dialogue.js";
import type { Json } from "./model-folder.js";
import { type LanguageModelParts, prepareModel } from "./prepare-model.js";
import { isConversation, type Prompt, vocabularyOf } from "./prompt-items.js";
import { SharedPrompt } from "./shared-prompt.js";
import type { ObjectSchema } from "#insitu/dialogue/standard-schema.js";
import type { TextTokenizer } from "./tokenizer.js";

export type { LoadLanguageModelOptions } from "./prepare-model.js";

/** The most texts that one prompt is continued to at once. */
const mostSamples = 65_536;

/** A model that continues text. */
export class LanguageModel {
  readonly #parts: LanguageModelParts;
  readonly #pool: ContextPool;
  readonly #draft: DraftSource;
  readonly #grammars: HeldGrammars;

  protected constructor(parts: LanguageModelParts) {
    this.#parts = parts;
    this.#grammars = new HeldGrammars(parts);
    this.#pool = new ContextPool(parts.model, parts.context, parts.keep);
    this.#draft = draftSource(parts.model, this.#pool);
    parts.onFull.makeRoom = () => this.#pool.drop();
  }

  /** Reads a folder, or the folder around an ONNX file, and makes the model ready. */
  protected static prepare(...given: Parameters<typeof prepareModel>): Promise<LanguageModelParts> {
    return prepareModel(...given);
  }

  /** The session that runs the model. */
  get session(): Session {
    return this.#parts.session;
  }

  /** The paged cache, if the model was loaded with `cache: "paged"`. */
  get pages(): PagedState | undefined {
    return this.pagedDecoder?.pages;
  }

  /** For servers: what reads tokens of any number of texts in one run, where the model was loaded with cache: "paged". */
  get pagedDecoder(): PagedDecoder | undefined {
    return this.#parts.model.paged;
  }

  /** For servers: what makes texts, the contexts that they are made on, and what guesses for texts of other models. */
  get forServers(): { readonly engine: TokenEngine; readonly contexts: ContextSource; readonly draft: DraftSource } {
    return { engine: this.#parts.model.engine, contexts: this.#pool, draft: this.#draft };
  }

  /** The size of the vocabulary: how many tokens there are. */
  get vocabulary(): number {
    const known = vocabularyOf(this.session, this.config);
    if (known !== undefined) return known;
    throw new InsituError(
      "invalid-model",
      "neither the model's logits nor config.json give the size of the vocabulary",
    );
  }

  /** The tokenizer: turns text into tokens, and tokens into text. */
  get tokenizer(): TextTokenizer {
    return this.#parts.tokenizer;
  }

  /** How the model writes tool calls and reasoning: recognized by its chat template, or set by `toolFormat`. */
  get dialogue(): ModelDialogue {
    return this.#parts.dialogue;
  }

  /** The contents of the model's config.json. */
  get config(): Json {
    return this.#parts.config;
  }

  /** The context window: how many tokens the prompt and the generated text may have together. */
  get contextLength(): number {
    return this.#parts.context;
  }

  /** The model's own defaults: sampling options, and the tokens that end a text. */
  get defaults(): ModelDefaults {
    return this.#parts.defaults;
  }

  /** For servers: what keeps a text to a rule. Throws for a rule that cannot be enforced. */
  constrain(rule: TextRule): Promise<HeldConstraint> {
    return this.#grammars.constrain(rule);
  }

  /**
   * Generates text after a prompt. Iterate over the result to stream tokens, or await `text()`.
   * @throws InsituError `invalid-argument` for invalid options, `context-full` if the prompt is longer than the context window.
   * @example
   * ```ts
   * import { CausalLM } from "insitu";
   *
   * const lm = await CausalLM.load();
   * for await (const { text } of lm.generate("Once upon a time", { maxTokens: 60, seed: 1 })) console.log(text);
   * await lm.release();
   * ```
   */
  generate(prompt: Prompt, options?: GenerateOptions): Generation {
    const given = optionsWithoutNull("the options of generate", options, generateOptionNames);
    const generating = this.#read(given, isConversation(prompt));
    return this.#generate(this.#encode(prompt, given), generating, this.#pool);
  }

  /**
   * Structured output: generates an object that matches a schema of zod, valibot or arktype, or a JSON Schema.
   * @throws InsituError `unfinished` if the text was cut before it was complete, `invalid-value` if the schema rejects the object.
   * @example
   * ```ts
   * import { CausalLM } from "insitu";
   *
   * const lm = await CausalLM.load();
   * const schema = {
   *   type: "object",
   *   properties: { name: { type: "string", maxLength: 20 } },
   *   required: ["name"],
   * };
   * const { object } = await lm.generateObject<{ name: string }>(schema, "A hero:", { seed: 1 });
   * console.log(object.name);
   * await lm.release();
   * ```
   */
  generateObject<T>(schema: ObjectSchema<T>, prompt: Prompt, options?: ObjectOptions): Promise<GeneratedObject<T>> {
    return generateObject(schema, options, (text) => this.generate(prompt, text));
  }

  /**
   * Structured output while it is generated: iterate over the result for the object so far.
   * @throws InsituError as `generateObject` does, from `object()`.
   */
  streamObject<T>(schema: ObjectSchema<T>, prompt: Prompt, options?: ObjectOptions): ObjectStream<T> {
    return streamObject(schema, options, (text) => this.generate(prompt, text));
  }

  /**
   * Generates completions of several prompts in one batch. Their tokens arrive as they are generated; `sample` is the index of the prompt.
   * With structured output every completion follows the rule.
   * @throws InsituError `invalid-argument` for invalid options, and for a `constraint` of your own for several prompts.
   * @example
   * ```ts
   * import { CausalLM } from "insitu";
   *
   * const lm = await CausalLM.load();
   * const texts = ["", ""];
   * for await (const { sample, text } of lm.generateBatch(["The wolf", "The fox"], { maxTokens: 20 })) texts[sample] += text;
   * console.log(texts);
   * await lm.release();
   * ```
   */
  generateBatch(prompts: readonly Prompt[], options?: GenerateOptions): AsyncGenerator<BatchToken, void, undefined> {
    const { model, context: capacity } = this.#parts;
    const given = optionsWithoutNull("the options of generateBatch", options, generateOptionNames);
    if (!Array.isArray(prompts))
      throw new InsituError("invalid-argument", `a batch is a list of prompts, got ${valueText(prompts)}`);
    const generating = this.#read(given, (prompts as readonly Prompt[]).some(isConversation));
    refuseOneConstraint("generateBatch", prompts.length, given);
    const tokens = Array.from(prompts, (prompt: Prompt) => this.#encode(prompt, given));
    return generateBatch(this.#maker, model.openTogether, capacity, tokens, generating);
  }

  /**
   * Several completions of one prompt, which is read once: each continues from its own fork of the cache, with its own seed. With `keep: 0` the
   * prompt's cache is dropped in between, and the prompt is read again.
   * @throws InsituError `invalid-argument` for a count or options that are invalid.
   */
  async samples(prompt: Prompt, count: number, options?: GenerateOptions): Promise<Generation[]> {
    const rule = `a whole number from 1 to ${mostSamples}`;
    checkRule("option count", count ?? NaN, rule, Number.isSafeInteger(count) && count >= 1 && count <= mostSamples);
    const given = optionsWithoutNull("the options of samples", options, generateOptionNames);
    const generating = this.#read(given, isConversation(prompt));
    refuseOneConstraint("samples", count, given);
    const tokens = this.#encode(prompt, given);
    const shared = new SharedPrompt(this.#pool, count, () => this.#readAllButLast(tokens, generating));
    // Texts of no token take no context.
    const source = wantsNothing(generating) ? this.#pool : shared;
    if (source === shared) await shared.prepare();
    const { seed } = generating.sampling;
    return Array.from({ length: count }, (_, index) =>
      this.#generate(tokens, { ...generating, sampling: { ...generating.sampling, seed: seed + index } }, source),
    );
  }

  /**
   * Beam search: the most likely completions as a whole, best first. Sampling options have no effect.
   * @throws InsituError `invalid-argument` for structured output and `logitBias`, which a beam search does not take.
   */
  async beamSearch(
    prompt: Prompt,
    options?: GenerateOptions & Partial<BeamOptions>,
  ): Promise<(Beam & { readonly text: string })[]> {
    const {
      beams = 4,
      lengthPenalty = 1,
      ...given
    } = optionsWithoutNull("the options of beamSearch", options, beamSearchOptionNames);
    refuseRules("beamSearch", given);
    checkCount("option beams", beams, 1);
    checkRule("option lengthPenalty", lengthPenalty, "a finite number", Number.isFinite(lengthPenalty));
    const generating = this.#read(given, isConversation(prompt));
    const tokens = this.#encode(prompt, given);
    if (wantsNothing(generating)) return [];
    const context = await this.#readAllButLast(tokens, generating);
    const found = await beamSearch(this.#maker.engine, context, tokens.at(-1)!, { beams, lengthPenalty }, generating);
    const { length } = this.tokenizer.decode(tokens);
    return found.map((beam) => ({ ...beam, text: this.tokenizer.decode([...tokens, ...beam.tokens]).slice(length) }));
  }

  /**
   * Begins a conversation of several turns. `opening` holds the messages so far, such as a system message. Options can also come first:
   * `chat({ tools })`. Without a chat template each message is a paragraph, and the answer is the next one.
   * @throws InsituError `invalid-argument` for messages, tools or options that are invalid.
   * @example
   * ```ts
   * import { CausalLM } from "insitu";
   *
   * const lm = await CausalLM.load();
   * const chat = lm.chat([{ role: "system", content: "You answer briefly." }]);
   * for await (const { text } of chat.send("Who lives in the forest?", { maxTokens: 60 })) console.log(text);
   * console.log(await chat.send("And then?", { maxTokens: 60 }).text()); // reads only the new turn
   * await lm.release();
   * ```
   */
  chat(opening?: readonly AnyChatMessage[] | ChatOptions, options?: ChatOptions): Chat {
    const [said, wanted] = chatArguments(opening, options);
    const given = optionsWithoutNull("the options of chat", wanted, chatOptionNames);
    checkMessages(said);
    checkChatOptions(given);
    return Chat.open(this.#pool, this.#round, said, given);
  }

  /**
   * Answers a conversation whose messages you keep yourself, with tools and reasoning, as `chat` does. The prefix cache keeps it from reading old turns again.
   * @throws InsituError `invalid-argument` for messages, tools or options that are invalid.
   */
  reply(messages: readonly AnyChatMessage[], options?: ChatOptions): ChatReply {
    const given = optionsWithoutNull("the options of reply", options, chatOptionNames);
    checkMessages(messages);
    checkChatOptions(given);
    return replyTo(messages, given, (said, of) => this.#round(said, of, this.#pool));
  }

  /**
   * Saves the KV cache and the tokens of the latest generation as bytes: `restoreContext` continues from them, in another process too.
   * @throws InsituError `invalid-state` if nothing was generated yet, or the model was loaded with `keep: 0`.
   * @example
   * ```ts
   * import { CausalLM } from "insitu";
   *
   * const lm = await CausalLM.load();
   * await lm.generate("Once upon a time", { maxTokens: 20 }).text();
   * const bytes = await lm.saveContext();
   * await lm.restoreContext(bytes); // the same beginning is not read again
   * await lm.release();
   * ```
   */
  saveContext(): Promise<Uint8Array> {
    return this.#pool.save();
  }

  /**
   * Restores a context that `saveContext` saved: prompts with the same beginning are not read again.
   * @throws InsituError `invalid-state` for bytes that are damaged or of another model.
   */
  restoreContext(bytes: Uint8Array): Promise<void> {
    return this.#pool.restore(bytes);
  }

  /**
   * Loads the model's own head for speculative decoding (`mtp.onnx`): `speculate: { draft: head }`. You release it.
   * @throws InsituError `invalid-model` if there is none, or it does not fit the model.
   */
  loadHead(): Promise<DraftHead> {
    return openHead(this, this.#parts.openHead);
  }

  /** Frees the model's memory. The model cannot be used afterwards. */
  async release(): Promise<void> {
    this.#pool.release();
    this.#parts.model.release();
    await this.#parts.session.release();
  }

  readonly #round: MakeRound = (messages, options, source) => {
    const maker = {
      dialogue: this.dialogue,
      encode: (said: readonly AnyChatMessage[], of: GenerateOptions) => this.#encodeChat(said, of),
      read: (of: GenerateOptions) => this.#read(of, true),
      generate: (tokens: readonly number[], of: Generating, from: ContextSource) => this.#generate(tokens, of, from),
      constrain: (rule: TextRule) => this.constrain(rule),
    };
    return chatRound(maker, messages, options, source);
  };

  get #maker(): Maker {
    return { engine: this.#parts.model.engine, decoder: this.tokenizer };
  }

  #generate(tokens: readonly number[], options: Generating, source: ContextSource): Generation {
    const { context } = this.#parts;
    if (tokens.length > context && options.whenFull !== "slide")
      throw new InsituError(
        "context-full",
        `the prompt has ${tokens.length} tokens, the context holds ${context}: ask for a longer context or for whenFull: "slide"`,
      );
    return new Generation(this.#maker, source, tokens, options);
  }

  /** A context that has read all of a prompt but its last token. Where reading ends before, what was read waits for others. */
  async #readAllButLast(tokens: readonly number[], options: Generating): Promise<Context> {
    if (tokens.length > this.#parts.context) throw contextFull(this.#parts.context);
    await stillWanted(options);
    const { context, reused } = this.#pool.take(tokens);
    try {
      const last = tokens.length - 1;
      const read = [{ context, tokens: tokens.slice(reused, last) }];
      if (reused < last) await readTokens(this.#maker.engine, read, false, () => options.signal?.throwIfAborted());
      return context;
    } catch (error) {
      this.#pool.give(context);
      throw error;
    }
  }

  #read(options: GenerateOptions, isChat: boolean): Generating {
    const generating = readGenerating(
      options,
      this.#parts.defaults,
      this.tokenizer,
      (rule) => this.constrain(rule),
      isChat,
    );
    requireKnownTokens(options, vocabularyOf(this.session, this.config));
    const draft = typeof options.speculate === "object" ? options.speculate.draft : undefined;
    if (typeof draft === "object") checkDraft(this, draft);
    return generating;
  }

  #encode(prompt: Prompt, options: GenerateOptions): readonly number[] {
    return encodePrompt(this.tokenizer, prompt, options, () => vocabularyOf(this.session, this.config));
  }

  #encodeChat(messages: readonly AnyChatMessage[], options: GenerateOptions): readonly number[] {
    return encodeConversation(this.tokenizer, messages, options);
  }
}
