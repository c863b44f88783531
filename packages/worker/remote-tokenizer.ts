/** The tokenizer of a model that a thread runs: `TextTokenizer`'s names, each a promise. */
import type { AnyChatMessage } from "#insitu/generate/messages.js";
import type { EncodeOptions } from "#insitu/generate/tokenizer.js";
import type { Link } from "./link.js";
import type { ModelFacts, TokenizerCalls } from "./messages.js";

/** What makes tokens of text, and text of tokens. */
export class RemoteTokenizer {
  readonly #link: Link;
  /** True if the model has a chat template. */
  readonly hasChatTemplate: boolean;
  /** The end token of the tokenizer's configuration. */
  readonly endToken: number | undefined;

  /** For models. */
  constructor(link: Link, { hasChatTemplate, endToken }: ModelFacts) {
    this.#link = link;
    this.hasChatTemplate = hasChatTemplate;
    this.endToken = endToken;
  }

  /** The tokens of a text. Special tokens that the model wants around it are added unless told otherwise. */
  encode(text: string, options?: EncodeOptions): Promise<number[]> {
    return this.#ask("encode", text, options);
  }

  /** The tokens of a conversation as the model's template writes it, ready for the answer. */
  encodeChat(
    messages: readonly AnyChatMessage[],
    more?: Readonly<Record<string, unknown>>,
    options?: Pick<EncodeOptions, "controlTokens">,
  ): Promise<number[]> {
    return this.#ask("encodeChat", messages, more, options);
  }

  /** The text of tokens, without special ones. */
  decode(tokens: readonly number[]): Promise<string> {
    return this.#ask("decode", tokens);
  }

  /** The number of a token by its spelling; undefined if it is not in the vocabulary. */
  tokenOf(spelling: string): Promise<number | undefined> {
    return this.#ask("tokenOf", spelling);
  }

  /** A token's spelling in the vocabulary. */
  spellingOf(token: number): Promise<string | undefined> {
    return this.#ask("spellingOf", token);
  }

  /** A conversation as the model's template writes it. Rejects where there is no template or it refuses. */
  renderChat(messages: readonly AnyChatMessage[], more?: Readonly<Record<string, unknown>>): Promise<string> {
    return this.#ask("renderChat", messages, more);
  }

  async #ask<Name extends keyof TokenizerCalls>(
    name: Name,
    ...values: Parameters<TokenizerCalls[Name]>
  ): Promise<ReturnType<TokenizerCalls[Name]>> {
    return (await this.#link.ask("tokenizer", { name, values })) as ReturnType<TokenizerCalls[Name]>;
  }
}
