/** Text ↔ tokens and chat templates, by the libraries of the hub: they are loaded with the first tokenizer. */
import { InsituError } from "../base/error.js";
import { checkChoice, checkFlag, checkRule, optionsWithoutNull } from "../base/arguments.js";
import type { OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import type { GrammarVocabulary } from "../engine/constraint.js";
import { type AnyChatMessage, checkMessages } from "./messages.js";
import type { ChatTemplate } from "#insitu/text/template/chat-template.js";
import type { TokenDecoder } from "../engine/text-stream.js";
import { type AddedToken, type Allows, allowsAll, allowsWritten } from "#insitu/text/tokens/added-tokens.js";
import { checkTokenizer } from "#insitu/text/tokens/check-tokenizer.js";
import { fillVocabulary, heldBack } from "#insitu/text/tokens/fill-vocabulary.js";
import { MarkedText, markOf } from "#insitu/text/tokens/marked-text.js";
import { TokenPipeline, type TokenizerParts } from "#insitu/text/tokens/token-pipeline.js";

/** What a tokenizer is made of: the parsed files of a model's folder. */
interface TokenizerFiles {
  /** tokenizer.json. */
  readonly tokenizer: object;
  /** tokenizer_config.json; where it is missing, there is no chat template. */
  readonly config?: Readonly<Record<string, unknown>> | undefined;
  /** chat_template.jinja, which goes before the one in tokenizer_config.json. */
  readonly template?: string | undefined;
}

/** How text that is spelled like a control token is encoded: as that token ("read"), or as ordinary text ("plain"). */
export type ControlTokens = "read" | "plain";

/** Options of `TextTokenizer.encode`. */
export interface EncodeOptions {
  /**
   * False leaves out the special tokens that the model expects around a text.
   * @default true
   */
  readonly specialTokens?: boolean | undefined;
  /**
   * How text that is spelled like a control token is encoded: as that token ("read"), or as ordinary text ("plain").
   * @default "read"
   */
  readonly controlTokens?: ControlTokens | undefined;
}

const encodeOptionNames: OptionNames<EncodeOptions> = { specialTokens: true, controlTokens: true };

/** How much a text may be before it is read no further: an error of the code "context-overflow". */
export interface EncodeBounds {
  readonly mostCharacters: number;
  readonly mostTokens: number;
}

const noBounds: EncodeBounds = { mostCharacters: Infinity, mostTokens: Infinity };

/** A model's tokenizer: turns text and chats into tokens, and tokens into text. */
export class TextTokenizer implements TokenDecoder {
  readonly #pipeline: TokenPipeline;
  readonly #template: ChatTemplate | undefined;
  /** bos_token, eos_token and their kin. */
  readonly #named: Readonly<Record<string, string>>;
  readonly #special: ReadonlySet<string>;
  readonly #allows: Allows;
  readonly #kind: GrammarVocabulary["kind"];

  private constructor(
    pipeline: TokenPipeline,
    template: ChatTemplate | undefined,
    named: Readonly<Record<string, string>>,
    special: ReadonlySet<string>,
    kind: GrammarVocabulary["kind"],
  ) {
    this.#kind = kind;
    this.#pipeline = pipeline;
    this.#template = template;
    this.#named = named;
    this.#special = special;
    const isToken = (text: string): boolean => pipeline.added.has(text) || isBracketed(text);
    const control = new Set([...special, ...Object.values(named).filter(isToken)]);
    this.#allows = allowsWritten(spelledBy(template?.source ?? "", pipeline.added.keys()), control);
  }

  /** Creates a tokenizer from the files of a model's folder. */
  static async load({ tokenizer, config = {}, template }: TokenizerFiles): Promise<TextTokenizer> {
    const { Tokenizer } = await import("@huggingface/tokenizers");
    const { pipeline, added } = guarded("the tokenizer cannot be created from tokenizer.json", () => {
      const tokens = checkTokenizer(tokenizer);
      const empty = { normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null };
      // What stands for unknown words is in the one file or the other.
      const { model } = tokenizer as { readonly model: { readonly unk_token?: unknown } };
      const held = heldBack(model);
      const parts: TokenizerParts = new Tokenizer(
        { ...empty, ...tokenizer, ...(held && { model: held.model }), added_tokens: [] },
        { unk_token: model.unk_token, ...config, ...namedTokensOf(config), additional_special_tokens: [] },
      );
      if (held !== undefined) fillVocabulary(parts.model, held.vocabulary);
      const rules = {
        removeSpace: config["remove_space"] === true,
        lowercase: config["do_lowercase_and_remove_accent"] === true,
        isBytes: (tokenizer as { readonly decoder?: { readonly type?: unknown } | null }).decoder?.type === "ByteLevel",
      };
      return { pipeline: new TokenPipeline(parts, tokens, rules), added: tokens };
    });
    const source = template ?? templateOf(config["chat_template"]);
    const read = async (text: string): Promise<ChatTemplate> => {
      // A model without a template does without the code that reads them.
      const { ChatTemplate: Read } = await import("#insitu/text/template/chat-template.js");
      return Read.read(text);
    };
    return new TextTokenizer(
      pipeline,
      source === undefined ? undefined : await read(source),
      namedTokensOf(config),
      specialTokensOf(added, config),
      kindOf(tokenizer),
    );
  }

  /** The end token of the tokenizer's configuration. */
  get endToken(): number | undefined {
    const spelling = this.#named["eos_token"];
    return spelling === undefined ? undefined : this.tokenOf(spelling);
  }

  /** The model's chat template; undefined if it has none. */
  get templateSource(): string | undefined {
    return this.#template?.source;
  }

  /** True if the model has a chat template. */
  get hasChatTemplate(): boolean {
    return this.#template !== undefined;
  }

  /** Turns text into tokens. The special tokens that the model expects around a text are added unless `specialTokens` is false. */
  encode(text: string, options?: EncodeOptions): number[] {
    return through(this.encodeSteps(text, options));
  }

  /** For servers: the same in steps, between which others have their turn, and within bounds. */
  encodeSteps(text: string, options?: EncodeOptions, bounds: EncodeBounds = noBounds): Iterator<void, number[]> {
    if (typeof text !== "string")
      throw new InsituError("invalid-argument", `only text can become tokens, got ${valueText(text)}`);
    const { specialTokens = true, controlTokens = "read" } = optionsWithoutNull(
      "the options of encode",
      options,
      encodeOptionNames,
    );
    checkFlag("option specialTokens", specialTokens);
    return this.#encode(MarkedText.of(text, markOf.caller), specialTokens, controlTokens, bounds);
  }

  /**
   * Turns a conversation into tokens with the model's chat template, ready for the answer. Only the template can write control tokens: the same
   * characters in a message stay text, unless `controlTokens` is "read".
   */
  encodeChat(
    messages: readonly AnyChatMessage[],
    more?: Readonly<Record<string, unknown>>,
    options?: Pick<EncodeOptions, "controlTokens">,
  ): number[] {
    const { controlTokens = "plain" } = optionsWithoutNull("the options of encodeChat", options, {
      controlTokens: true,
    });
    return through(this.#encode(this.#render(messages, more), false, controlTokens, noBounds));
  }

  /** For servers: the same in steps and within bounds. */
  encodeChatSteps(
    messages: readonly AnyChatMessage[],
    more: Readonly<Record<string, unknown>>,
    bounds: EncodeBounds,
  ): Iterator<void, number[]> {
    return this.#encode(this.#render(messages, more), false, "plain", bounds);
  }

  /** Turns tokens into text, without special tokens. Bytes that are not a character become U+FFFD. */
  decode(tokens: readonly number[]): string {
    if (!Array.isArray(tokens))
      throw new InsituError("invalid-argument", `tokens must be a list of numbers, got ${valueText(tokens)}`);
    return guarded("the tokenizer cannot write the tokens", () => this.#pipeline.decode(tokens, this.#special));
  }

  /** For text that comes token by token: what one adds to it, where that does not depend on the others. */
  bytesOf(token: number): Uint8Array | string | undefined {
    return this.#pipeline.bytesOf(token, this.#special);
  }

  /** The number of a token by its spelling; undefined if it is not in the vocabulary. */
  tokenOf(spelling: string): number | undefined {
    return this.#pipeline.tokenOf(spelling);
  }

  /** A token's spelling in the vocabulary. */
  spellingOf(token: number): string | undefined {
    return this.#pipeline.spellingOf(token);
  }

  /** For grammars: the vocabulary; `size` is the model's count of tokens, where it is told; `spelled` are control tokens that are text to it. */
  grammarVocabulary(size: unknown, endTokens: readonly number[], spelled?: ReadonlySet<string>): GrammarVocabulary {
    const spellings: string[] = [];
    const text = (token: number): string => {
      const spelling = this.spellingOf(token) ?? "";
      return this.#special.has(spelling) && spelled?.has(spelling) !== true ? "" : spelling;
    };
    if (typeof size === "number") for (let token = 0; token < size; token++) spellings.push(text(token));
    else for (let token = 0; this.spellingOf(token) !== undefined; token++) spellings.push(text(token));
    return { kind: this.#kind, spellings, endTokens };
  }

  /**
   * Writes a conversation as text with the model's chat template, ready for the answer. Throws if there is no template, or if it refuses the
   * conversation.
   */
  renderChat(messages: readonly AnyChatMessage[], more?: Readonly<Record<string, unknown>>): string {
    return this.#render(messages, more).text;
  }

  #encode(
    text: MarkedText,
    around: boolean,
    controlTokens: ControlTokens,
    { mostCharacters, mostTokens }: EncodeBounds,
  ): Iterator<void, number[]> {
    if (text.length > mostCharacters)
      throw new InsituError(
        "context-overflow",
        `the text has ${text.length} characters, at most ${mostCharacters} are read`,
      );
    const half = text.text.search(/\p{Surrogate}/u);
    if (half >= 0)
      throw new InsituError(
        "invalid-argument",
        `the text is not valid Unicode: there is half of a surrogate pair at index ${half}`,
      );
    checkChoice("option controlTokens", controlTokens, ["read", "plain"]);
    const allows = controlTokens === "plain" ? this.#allows : allowsAll;
    return guardedSteps(
      "the tokenizer cannot read the text",
      this.#pipeline.encode(text, { around, allows, mostTokens }),
    );
  }

  #render(messages: readonly AnyChatMessage[], more: Readonly<Record<string, unknown>> | undefined): MarkedText {
    checkMessages(messages);
    if (this.#template === undefined)
      throw new InsituError(
        "invalid-argument",
        "the model has no chat template: give the prompt as text, load the model with chatTemplate, or put a chat_template into tokenizer_config.json",
      );
    checkRule(
      "option templateOptions",
      more ?? undefined,
      "an object",
      typeof more === "object" && !Array.isArray(more),
    );
    const given = { add_generation_prompt: true, ...more };
    return this.#template.render({ messages, given, own: this.#named });
  }
}

/** What the spellings of a vocabulary stand for, by the decoder that tokenizer.json has. */
function kindOf(tokenizer: object): GrammarVocabulary["kind"] {
  const { decoder } = tokenizer as { readonly decoder?: unknown };
  const told = JSON.stringify(decoder ?? null);
  return told.includes('"ByteLevel"')
    ? "byte_level"
    : /"(ByteFallback|Metaspace)"/.test(told)
      ? "byte_fallback"
      : "raw";
}

/** What the library throws, as an error that says whose fault it is. */
function guarded<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw toldError(what, cause);
  }
}

function* guardedSteps<T>(what: string, steps: Generator<void, T>): Generator<void, T> {
  try {
    return yield* steps;
  } catch (cause) {
    throw toldError(what, cause);
  }
}

function toldError(what: string, cause: unknown): InsituError {
  if (cause instanceof InsituError) return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  return new InsituError("invalid-model", `${what}: ${why}`, { cause });
}

/** All steps at once. */
function through<T>(steps: Iterator<void, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** A template is text, or one of several by name; of several the default one. */
function templateOf(given: unknown): string | undefined {
  if (given === undefined || given === null || typeof given === "string") return given ?? undefined;
  const named = Array.isArray(given)
    ? (given as readonly unknown[]).map((each) => (typeof each === "object" ? each : undefined))
    : Object.entries(given).map(([name, template]: [string, unknown]) => ({ name, template }));
  const templates = named.flatMap((each): { name: unknown; template: string }[] => {
    const { name, template } = (each ?? {}) as { readonly name?: unknown; readonly template?: unknown };
    return typeof template === "string" ? [{ name, template }] : [];
  });
  const chosen = templates.find(({ name }) => name === "default") ?? templates[0];
  if (chosen === undefined)
    throw new InsituError(
      "invalid-model",
      "tokenizer_config.json: chat_template must be text, or texts by name; load the model with chatTemplate to use another",
    );
  return chosen.template;
}

/** bos_token, eos_token and their kin by name: templates use them. Each is text, or an object that holds it. */
function namedTokensOf(config: Readonly<Record<string, unknown>>): Record<string, string> {
  const named: Record<string, string> = {};
  for (const [name, given] of Object.entries(config)) {
    const text = name.endsWith("_token") ? spellingIn(given) : undefined;
    if (text !== undefined) named[name] = text;
  }
  return named;
}

/** The spellings of the tokens that are never text: those that tokenizer.json or tokenizer_config.json call special. */
function specialTokensOf(added: readonly AddedToken[], config: Readonly<Record<string, unknown>>): Set<string> {
  const listed = config["additional_special_tokens"];
  const more = Array.isArray(listed) ? (listed as readonly unknown[]).map(spellingIn) : [];
  const special = added.flatMap((token) => (token.special ? [token.content] : []));
  return new Set([...special, ...more.filter((text) => text !== undefined)]);
}

const spellingIn = (given: unknown): string | undefined => {
  const text: unknown = typeof given === "object" && given !== null && "content" in given ? given.content : given;
  return typeof text === "string" ? text : undefined;
};

/** Of the tokens that are written in brackets, such as `<tool_call>`, those that a template spells out: to it they are control tokens. */
function spelledBy(template: string, spellings: Iterable<string>): Set<string> {
  return new Set([...spellings].filter((text) => isBracketed(text) && template.includes(text)));
}

const isBracketed = (text: string): boolean => /^(?:<.+>|\[.+\]|\{.+\})$/su.test(text);
