/** A language model with its tokenizer: the object that users generate text with. `entry/` gives it a `load` that opens files. */
import { InsituError } from "../base/error.js";
import { checkCount, checkRule, optionsWithoutNull } from "../base/arguments.js";
import { valueText } from "../base/value-text.js";
import type { PagedState } from "../cache/paged-state.js";
import type { Session } from "../session/session.js";
import { generateBatch, type BatchToken } from "./batch.js";
import { type Beam, type BeamOptions, beamSearch } from "./beams.js";
import { Chat, chatArguments, type MakeRound, replyTo } from "./chat.js";
import type { ChatReply } from "./chat-reply.js";
import { chatRound } from "./chat-model.js";
import { type ChatOptions, chatOptionNames, checkChatOptions } from "./chat-options.js";
import type { Grammars, HeldConstraint, TextRule } from "../engine/constraint.js";
import type { Context } from "../engine/context.js";
import { contextFull } from "../engine/ending.js";
import type { PagedDecoder } from "../engine/paged-decoder.js";
import type { DraftSource } from "../engine/text-ask.js";
import { readTokens } from "../engine/pulled-text.js";
import type { TokenEngine } from "../engine/token-engine.js";
import { ContextPool, type ContextSource } from "./context-pool.js";
import { checkDraft, draftSource } from "./draft-model.js";
import { Generation, type Maker, stillWanted, wantsNothing } from "./generation.js";
import { beamSearchOptionNames } from "./load-option-names.js";
import { type AnyChatMessage, checkMessages, plainText } from "./messages.js";
import { type GeneratedObject, generateObject, type ObjectOptions, type ObjectStream, streamObject } from "./object.js";
import {
  type GenerateOptions,
  type Generating,
  generateOptionNames,
  type ModelDefaults,
  readGenerating,
  refuseLimits,
} from "./options.js";
import type { ModelDialogue } from "./model-dialogue.js";
import type { Json } from "./model-folder.js";
import { type LanguageModelParts, prepareModel } from "./prepare-model.js";
import { isConversation, isTokens, notEmpty, type Prompt, vocabularyOf } from "./prompt-items.js";
import { SharedPrompt } from "./shared-prompt.js";
import type { ObjectSchema } from "./standard-schema.js";
import type { TextTokenizer } from "./tokenizer.js";

export type { LoadLanguageModelOptions } from "./prepare-model.js";

/** The most texts that one prompt is continued to at once. */
const mostSamples = 65_536;

/** A model that continues text. */
export class LanguageModel {
  readonly #parts: LanguageModelParts;
  readonly #pool: ContextPool;
  readonly #draft: DraftSource;
  #grammars: Promise<Grammars> | undefined;

  protected constructor(parts: LanguageModelParts) {
    this.#parts = parts;
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

  /** The pages that texts lie on, where the model was loaded with cache: "paged". */
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

  /** How many tokens there are to choose from. */
  get vocabulary(): number {
    const known = vocabularyOf(this.session, this.config);
    if (known !== undefined) return known;
    throw new InsituError(
      "invalid-model",
      "neither the model's logits nor config.json tell how large the vocabulary is",
    );
  }

  /** What makes tokens of text, and text of tokens. */
  get tokenizer(): TextTokenizer {
    return this.#parts.tokenizer;
  }

  /** How the model writes tool calls and reasoning: found by its chat template, or what it was loaded with. */
  get dialogue(): ModelDialogue {
    return this.#parts.dialogue;
  }

  /** config.json. */
  get config(): Json {
    return this.#parts.config;
  }

  /** Tokens that prompt and text may take together. */
  get contextLength(): number {
    return this.#parts.context;
  }

  /** How the model wants to be used: its sampling, and the tokens that end a text. */
  get defaults(): ModelDefaults {
    return this.#parts.defaults;
  }

  /** For servers: what keeps a text to a rule. Throws for a rule that cannot be enforced. */
  async constrain(rule: TextRule): Promise<HeldConstraint> {
    const { makeGrammars, tokenizer, config, defaults, dialogue } = this.#parts;
    this.#grammars ??= makeGrammars(
      tokenizer.grammarVocabulary(config["vocab_size"], defaults.endTokens, new Set(dialogue.grammarMarkers)),
    );
    try {
      return await (await this.#grammars).constrain(rule);
    } catch (error) {
      // What could not be loaded may be there the next time.
      if (
        await this.#grammars.then(
          () => false,
          () => true,
        )
      )
        this.#grammars = undefined;
      throw error;
    }
  }

  /** Continues a prompt: iterate over the result for tokens with their text. */
  generate(prompt: Prompt, options?: GenerateOptions): Generation {
    const given = optionsWithoutNull("the options of generate", options, generateOptionNames);
    const generating = this.#read(given, isConversation(prompt));
    return this.#generate(this.#encode(prompt, given), generating, this.#pool);
  }

  /** An object that a schema of zod, valibot or arktype, or a JSON Schema, takes: the text can be nothing else. Throws where it was cut. */
  generateObject<T>(schema: ObjectSchema<T>, prompt: Prompt, options?: ObjectOptions): Promise<GeneratedObject<T>> {
    return generateObject(schema, options, (text) => this.generate(prompt, text));
  }

  /** The same while it is made: iterate over the result for what there is so far. */
  streamObject<T>(schema: ObjectSchema<T>, prompt: Prompt, options?: ObjectOptions): ObjectStream<T> {
    return streamObject(schema, options, (text) => this.generate(prompt, text));
  }

  /** Continues several prompts at once; tokens of all texts come as they are made. */
  generateBatch(prompts: readonly Prompt[], options?: GenerateOptions): AsyncGenerator<BatchToken, void, undefined> {
    const { model, context: capacity } = this.#parts;
    const given = optionsWithoutNull("the options of generateBatch", options, generateOptionNames);
    if (!Array.isArray(prompts))
      throw new InsituError("invalid-argument", `a batch is a list of prompts, got ${valueText(prompts)}`);
    const generating = this.#read(given, (prompts as readonly Prompt[]).some(isConversation));
    refuseLimits("generateBatch", given);
    const tokens = Array.from(prompts, (prompt: Prompt) => this.#encode(prompt, given));
    return generateBatch(this.#maker, model.openTogether, capacity, tokens, generating);
  }

  /**
   * Several texts for one prompt, which is read here, once: each text goes on from its own fork of the caches, with its own seed. A text
   * that is not begun holds no caches; what was read waits for it as after any text, if the model was loaded to keep contexts.
   */
  async samples(prompt: Prompt, count: number, options?: GenerateOptions): Promise<Generation[]> {
    const rule = `a whole number from 1 to ${mostSamples}`;
    checkRule("option count", count ?? NaN, rule, Number.isSafeInteger(count) && count >= 1 && count <= mostSamples);
    const given = optionsWithoutNull("the options of samples", options, generateOptionNames);
    const generating = this.#read(given, isConversation(prompt));
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

  /** The likeliest texts as a whole, best first. Sampling options have no say. */
  async beamSearch(
    prompt: Prompt,
    options?: GenerateOptions & Partial<BeamOptions>,
  ): Promise<(Beam & { readonly text: string })[]> {
    const {
      beams = 4,
      lengthPenalty = 1,
      ...given
    } = optionsWithoutNull("the options of beamSearch", options, beamSearchOptionNames);
    refuseLimits("beamSearch", given);
    checkCount("option beams", beams, 1);
    checkRule("option lengthPenalty", lengthPenalty, "a finite number", Number.isFinite(lengthPenalty));
    const generating = this.#read(given, isConversation(prompt));
    const tokens = this.#encode(prompt, given);
    if (wantsNothing(generating)) return [];
    const context = await this.#readAllButLast(tokens, generating);
    const found = await beamSearch(this.#maker.engine, context, tokens.at(-1)!, { beams, lengthPenalty }, generating);
    return found.map((beam) => ({ ...beam, text: this.#continuation(tokens, beam.tokens) }));
  }

  /**
   * A conversation of several turns; `opening` is what was said before, a system message for one. Without a chat template each message
   * is a paragraph, and the answer is the next one. Options alone will do: `chat({ tools })`.
   */
  chat(opening?: readonly AnyChatMessage[] | ChatOptions, options?: ChatOptions): Chat {
    const [said, wanted] = chatArguments(opening, options);
    const given = optionsWithoutNull("the options of chat", wanted, chatOptionNames);
    checkMessages(said);
    checkChatOptions(given);
    return Chat.open(this.#pool, this.#round, said, given);
  }

  /** The answer to a conversation that its caller keeps: as a chat's, with tools and reasoning, on any context that was kept. */
  reply(messages: readonly AnyChatMessage[], options?: ChatOptions): ChatReply {
    const given = optionsWithoutNull("the options of reply", options, chatOptionNames);
    checkMessages(messages);
    checkChatOptions(given);
    return replyTo(messages, given, (said, of) => this.#round(said, of, this.#pool));
  }

  /** What the latest generation has read, as bytes: caches and tokens. */
  saveContext(): Promise<Uint8Array> {
    return this.#pool.save();
  }

  /** Takes over a saved context: prompts that begin as it does are not read again. */
  restoreContext(bytes: Uint8Array): Promise<void> {
    return this.#pool.restore(bytes);
  }

  /** Lets go of the model. */
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
    const draft = typeof options.speculate === "object" ? options.speculate.draft : undefined;
    if (typeof draft === "object") checkDraft(this, draft);
    return generating;
  }

  /** The text of tokens that follow a prompt: a space between the two is kept. */
  #continuation(prompt: readonly number[], tokens: readonly number[]): string {
    const before = this.tokenizer.decode(prompt);
    return this.tokenizer.decode([...prompt, ...tokens]).slice(before.length);
  }

  #encode(prompt: Prompt, options: GenerateOptions): readonly number[] {
    if (typeof prompt !== "string")
      return isTokens(prompt, vocabularyOf(this.session, this.config)) ? prompt : this.#encodeMessages(prompt, options);
    const { controlTokens = "read" } = options;
    return notEmpty(this.tokenizer.encode(prompt, { controlTokens }));
  }

  #encodeMessages(
    messages: readonly AnyChatMessage[],
    { templateOptions, controlTokens = "plain" }: GenerateOptions,
  ): readonly number[] {
    checkMessages(messages);
    return notEmpty(this.tokenizer.encodeChat(messages, templateOptions, { controlTokens }));
  }

  /** The tokens of a conversation: as the template writes it, or where there is none as paragraphs. */
  #encodeChat(messages: readonly AnyChatMessage[], options: GenerateOptions): readonly number[] {
    if (this.tokenizer.hasChatTemplate) return this.#encodeMessages(messages, options);
    return this.#encode(messages.map((message) => `${plainText(message)}\n`).join(""), {
      controlTokens: "plain",
      ...options,
    });
  }
}
