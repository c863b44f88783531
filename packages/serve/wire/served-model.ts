/** The model behind the endpoints, as they see it: its names, its tokenizer and its engine. */
import type { HeldConstraint, TextRule } from "#insitu/choice/constraint.js";
import type { LanguageModel } from "#insitu/generate/causal-lm.js";
import { InsituError } from "#insitu/base/error.js";
import type { AnyChatMessage } from "#insitu/generate/messages.js";
import type { EncodeBounds, EncodeOptions } from "#insitu/generate/tokenizer.js";
import type { Engine } from "../engine.js";
import { ApiError, apiErrorOf, badField } from "./api-error.js";
import type { WorkTurns } from "../work-turns.js";
import { nowSeconds } from "./identity.js";

/** Characters that a token may stand for, on average over a whole prompt; far more than any language needs. */
const mostCharacters = 128;

/** How often over a context may be filled before a text is read no further. */
const mostContexts = 4;

/** Tokens that become text in one go, whatever the context holds. */
const anyTokens = 65_536;

/** The error for a model that is not there. */
export const unknownModel = (name: string, names: readonly string[]): ApiError =>
  new ApiError(
    404,
    `the model "${name}" is not served here; there ${names.length === 1 ? "is" : "are"} ${names.map((each) => `"${each}"`).join(", ")}`,
    { param: "model", code: "model_not_found" },
  );

/** A name without Ollama's tag for what is newest: its clients may add it to any. */
export const untagged = (name: string): string => name.replace(/:latest$/, "");

/** A model that is served. */
export class ServedModel {
  readonly lm: LanguageModel;
  readonly engine: Engine;
  readonly name: string;
  readonly created: number = nowSeconds();
  readonly endTokens: ReadonlySet<number>;
  readonly #turns: WorkTurns;

  /** Other names that requests may have it by. */
  readonly #aliases: ReadonlySet<string>;

  constructor(
    lm: LanguageModel,
    engine: Engine,
    name: string,
    turns: WorkTurns,
    aliases: ReadonlySet<string> = new Set(),
  ) {
    this.#turns = turns;
    this.#aliases = aliases;
    this.lm = lm;
    this.engine = engine;
    this.name = name;
    this.endTokens = new Set(lm.defaults.endTokens);
  }

  /** Control tokens that stand in texts as they are spelled, where reasoning and calls are told apart. */
  get markers(): ReadonlyMap<number, string> {
    return this.lm.dialogue.markerTokens;
  }

  /** Throws where a request names another model. */
  requireName(name: string | null | undefined): void {
    const isOwn = (each: string): boolean => each === this.name || this.#aliases.has(each);
    if (name === undefined || name === null || isOwn(name) || isOwn(untagged(name))) return;
    throw unknownModel(name, [this.name]);
  }

  /** Tokens of a text that a client gave. */
  encode(param: string, text: string, options?: EncodeOptions): Promise<readonly number[]> {
    return this.#tokens(param, () => this.lm.tokenizer.encodeSteps(text, options, this.#bounds));
  }

  /** Tokens of a conversation that a client gave, by the model's template. */
  encodeChat(
    param: string,
    messages: readonly AnyChatMessage[],
    more: Readonly<Record<string, unknown>>,
  ): Promise<readonly number[]> {
    return this.#tokens(param, () => this.lm.tokenizer.encodeChatSteps(messages, more, this.#bounds));
  }

  get #bounds(): EncodeBounds {
    return { mostCharacters: this.#mostCharacters, mostTokens: this.engine.context * mostContexts };
  }

  /** What is surely longer than any text that fits. */
  get #mostCharacters(): number {
    return Math.max(this.engine.context * mostCharacters, 4096);
  }

  /** What cannot become tokens is the client's to mend. */
  async #tokens(param: string, begin: () => Iterator<void, readonly number[]>): Promise<readonly number[]> {
    let tokens: readonly number[];
    try {
      tokens = await this.#turns.through(begin());
    } catch (error) {
      if (!(error instanceof InsituError)) throw apiErrorOf(error);
      const isLong = error.code === "context-overflow";
      const context = isLong ? `, and the context holds ${this.engine.context} for prompt and completion together` : "";
      throw badField(
        param,
        `${param}: ${error.message}${context}`,
        isLong ? "context_length_exceeded" : "invalid_value",
      );
    }
    if (tokens.length === 0) throw badField(param, `${param}: it is empty, there is nothing to continue`);
    return tokens;
  }

  /** Throws for a text that is longer than any that fits: it is not read to find out. */
  requireLength(param: string, characters: number): void {
    if (characters > this.#mostCharacters)
      throw badField(
        param,
        `${param}: has ${characters} characters, more than a context of ${this.engine.context} tokens holds`,
        "context_length_exceeded",
      );
  }

  /** Throws for more tokens than become text in one go. */
  requireCount(param: string, count: number): void {
    const most = Math.max(this.engine.context * mostContexts, anyTokens);
    if (count > most)
      throw badField(param, `${param}: at most ${most} become text, got ${count}`, "context_length_exceeded");
  }

  /** What keeps each of `count` texts to a rule; a rule that cannot be kept is the client's to mend. */
  async constraints(rule: TextRule | undefined, param: string, count: number): Promise<readonly HeldConstraint[]> {
    const made: HeldConstraint[] = [];
    if (rule === undefined) return made;
    try {
      while (made.length < count) made.push(await this.lm.constrain(rule));
      return made;
    } catch (error) {
      for (const each of made) each.release();
      throw error instanceof InsituError && error.code !== "internal"
        ? badField(param, `${param}: ${error.message}`, "invalid_schema")
        : apiErrorOf(error);
    }
  }
}
