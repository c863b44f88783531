/** Text ↔ tokens and chat templates, by the libraries of the hub: they are loaded with the first tokenizer. */
import { InsituError } from "../base/error.js";
import type { TokenDecoder } from "./text-stream.js";

/** One message of a conversation. */
export interface ChatMessage {
  /** "system", "user", "assistant", or what else the model's template knows. */
  readonly role: string;
  readonly content: string;
  readonly [more: string]: unknown;
}

/** What a tokenizer is made of: the parsed files of a model's folder. */
export interface TokenizerFiles {
  /** tokenizer.json. */
  readonly tokenizer: object;
  /** tokenizer_config.json; where it is missing, there is no chat template. */
  readonly config?: Readonly<Record<string, unknown>> | undefined;
  /** chat_template.jinja, which goes before the one in tokenizer_config.json. */
  readonly template?: string | undefined;
}

/** The part of @huggingface/tokenizers that is used. */
interface Library {
  encode(text: string, options: { add_special_tokens: boolean }): { ids: number[] };
  decode(ids: number[], options: { skip_special_tokens: boolean; clean_up_tokenization_spaces: boolean }): string;
  token_to_id(token: string): number | undefined;
  id_to_token(id: number): string | undefined;
}

interface Template {
  render(items: Record<string, unknown>): string;
}

/** A model's tokenizer. */
export class TextTokenizer implements TokenDecoder {
  readonly #library: Library;
  readonly #template: Template | undefined;
  readonly #specials: Readonly<Record<string, string>>;

  private constructor(library: Library, template: Template | undefined, specials: Readonly<Record<string, string>>) {
    this.#library = library;
    this.#template = template;
    this.#specials = specials;
  }

  /** Makes a tokenizer from the files of a model's folder. */
  static async load({ tokenizer, config = {}, template }: TokenizerFiles): Promise<TextTokenizer> {
    const { Tokenizer } = await import("@huggingface/tokenizers");
    let library: Library;
    try {
      library = new Tokenizer(tokenizer, config);
    } catch (cause) {
      throw new InsituError("invalid-model", `the tokenizer cannot be made of tokenizer.json: ${messageOf(cause)}`, {
        cause,
      });
    }
    const source = template ?? templateOf(config["chat_template"]);
    return new TextTokenizer(
      library,
      source === undefined ? undefined : await parseTemplate(source),
      specialsOf(config),
    );
  }

  /** The token that the tokenizer's own configuration ends a text with. */
  get endToken(): number | undefined {
    const spelling = this.#specials["eos_token"];
    return spelling === undefined ? undefined : this.tokenOf(spelling);
  }

  /** True if the model has a chat template. */
  get hasChatTemplate(): boolean {
    return this.#template !== undefined;
  }

  /** The tokens of a text, which must be Unicode. Special tokens that the model wants around it are added unless told otherwise. */
  encode(text: string, { specialTokens = true }: { readonly specialTokens?: boolean } = {}): number[] {
    if (/\p{Surrogate}/u.test(text))
      throw new InsituError(
        "invalid-argument",
        `the text is not Unicode: half of a surrogate pair stands alone at index ${text.search(/\p{Surrogate}/u)}`,
      );
    return this.#library.encode(text, { add_special_tokens: specialTokens }).ids;
  }

  /** The text of tokens, without special ones. Bytes that are no character become U+FFFD. */
  decode(tokens: readonly number[]): string {
    if (tokens.length === 0) return "";
    return this.#library.decode([...tokens], { skip_special_tokens: true, clean_up_tokenization_spaces: false });
  }

  /** The number of a token by its spelling; undefined where there is none. */
  tokenOf(spelling: string): number | undefined {
    return this.#library.token_to_id(spelling);
  }

  /** A token's spelling in the vocabulary. */
  spellingOf(token: number): string | undefined {
    return this.#library.id_to_token(token);
  }

  /** A conversation as the model's template writes it, ready for the answer. Throws where there is no template or it refuses. */
  renderChat(messages: readonly ChatMessage[], more: Readonly<Record<string, unknown>> = {}): string {
    if (this.#template === undefined)
      throw new InsituError(
        "invalid-argument",
        "the model has no chat template: give the prompt as text, load the model with chatTemplate, or put a chat_template into tokenizer_config.json",
      );
    try {
      return this.#template.render({ ...this.#specials, add_generation_prompt: true, ...more, messages });
    } catch (cause) {
      throw new InsituError("invalid-argument", `the chat template refuses the messages: ${messageOf(cause)}`, {
        cause,
      });
    }
  }
}

async function parseTemplate(source: string): Promise<Template> {
  const { Template } = await import("@huggingface/jinja");
  try {
    return new Template(source);
  } catch (cause) {
    throw new InsituError("invalid-model", `the chat template cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/** A template is text, or one of several by name; of several the default one. */
function templateOf(given: unknown): string | undefined {
  if (typeof given === "string") return given;
  if (!Array.isArray(given)) return undefined;
  const named = given as readonly { readonly name?: unknown; readonly template?: unknown }[];
  const { template } = named.find(({ name }) => name === "default") ?? named[0] ?? {};
  return typeof template === "string" ? template : undefined;
}

/** bos_token, eos_token and their kin by name: templates use them. Each is text, or an object that holds it. */
function specialsOf(config: Readonly<Record<string, unknown>>): Record<string, string> {
  const specials: Record<string, string> = {};
  for (const [name, given] of Object.entries(config)) {
    if (!name.endsWith("_token")) continue;
    const text: unknown = typeof given === "object" && given !== null && "content" in given ? given.content : given;
    if (typeof text === "string") specials[name] = text;
  }
  return specials;
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));
