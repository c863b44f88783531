/** Text out of tokens as they come: never half a character, never a part of what may become a stop string. Knows no model. */

/** What a stream needs of a tokenizer. */
export interface TokenDecoder {
  decode(tokens: readonly number[]): string;
  /** What a token adds to the bytes of a text, or to the text; undefined, or left out, where that depends on the tokens around it. */
  bytesOf?(token: number): Uint8Array | string | undefined;
}

/** What bytes become that are no character yet, or never will be. */
const replacement = "\uFFFD";

/** A character has at most 4 bytes: more bytes than 3 that stand for themselves will never become one. */
const mostOpen = 3;

/** Tokens before the first new one that decide how it reads: whether a space begins a text, for one. */
const contextTokens = 6;

/** Tokens that may be open beside them: each character that is held back stands for at most 3 bytes, and a byte may be a token. */
const openTokens = 3 * mostOpen;

/** Tokens that are decoded together at most, however long no character comes of them. */
const mostTokens = 2 * (contextTokens + openTokens);

/** Text out of tokens that are bytes. */
class ByteText {
  readonly #bytesOf: (token: number) => Uint8Array | string | undefined;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  constructor(bytesOf: (token: number) => Uint8Array | string | undefined) {
    this.#bytesOf = bytesOf;
  }

  push(token: number): string {
    const piece = this.#bytesOf(token)!;
    return typeof piece === "string" ? this.end() + piece : this.#decoder.decode(piece, { stream: true });
  }

  end(): string {
    return this.#decoder.decode();
  }
}

/** Decodes tokens one by one; characters that several tokens share come with the last of them. */
export class TextStream {
  readonly #decoder: TokenDecoder;
  readonly #bytes: ByteText | undefined;
  /** The tokens that are decoded together: those since the last clean cut, and some before it for context. */
  #tokens: number[] = [];
  /** How much of their text was handed out, or belongs to the context. */
  #told = 0;

  constructor(decoder: TokenDecoder, prompt: readonly number[] = []) {
    this.#decoder = decoder;
    // A character that the prompt begins and the text ends belongs to the text.
    if (decoder.bytesOf?.(0) !== undefined) {
      this.#bytes = new ByteText((token) => decoder.bytesOf!(token));
      for (const token of prompt.slice(-openTokens)) this.#bytes.push(token);
      return;
    }
    this.#tokens = prompt.slice(beginningOfContext(decoder, prompt));
    const text = decoder.decode(this.#tokens);
    this.#told = text.length - openLength(text);
  }

  /** The text that is certain with this token. */
  push(token: number): string {
    if (this.#bytes !== undefined) return this.#bytes.push(token);
    this.#tokens.push(token);
    const text = this.#decoder.decode(this.#tokens);
    const certain = text.length - openLength(text);
    const fresh = text.slice(this.#told, certain);
    this.#told = Math.max(this.#told, certain);
    // Not with every token: forgetting takes as long as decoding.
    if (certain === text.length && this.#tokens.length > 2 * contextTokens) this.#keep(contextTokens);
    else if (this.#tokens.length > mostTokens) this.#keep(contextTokens + openTokens);
    return fresh;
  }

  /** Forgets all but the last tokens; what is still open of them stays to be told. */
  #keep(count: number): void {
    this.#tokens = this.#tokens.slice(-count);
    const text = this.#decoder.decode(this.#tokens);
    this.#told = text.length - openLength(text);
  }

  /** What is left at the end: characters that were never finished. */
  end(): string {
    if (this.#bytes !== undefined) return this.#bytes.end();
    return this.#decoder.decode(this.#tokens).slice(this.#told);
  }
}

/** Where the last tokens of a prompt begin that are whole characters from their first one on. */
function beginningOfContext(decoder: TokenDecoder, prompt: readonly number[]): number {
  let at = Math.max(0, prompt.length - contextTokens);
  while (at > 0 && decoder.decode([prompt[at]]).includes(replacement)) at--;
  return at;
}

/** How much of a text's end may still change: unfinished bytes. */
function openLength(text: string): number {
  let open = 0;
  while (open < mostOpen && open < text.length && text[text.length - 1 - open] === replacement) open++;
  return open;
}

/** Looks for stop strings in a text that comes in pieces, and holds back what may be the beginning of one. */
export class StopStrings {
  readonly #stops: readonly string[];
  readonly #mayStop: (before: string) => boolean;
  #told = "";
  #held = "";

  /** `mayStop`: whether the text may be all that stands before a stop string; where it may not, that one is text as any other. */
  constructor(stops: readonly string[], mayStop: (before: string) => boolean = () => true) {
    this.#stops = stops;
    this.#mayStop = mayStop;
  }

  /** The text that may be shown; `stopped` once a stop string came, which itself is never shown, with which one it was. */
  push(text: string): { readonly text: string; readonly stopped: boolean; readonly stop?: string } {
    if (this.#stops.length === 0) return { text, stopped: false };
    const all = this.#held + text;
    for (let at = this.#find(all, 0); at !== undefined; at = this.#find(all, at + 1)) {
      if (!this.#mayStop(this.#told + all.slice(0, at))) continue;
      this.#held = "";
      return { text: all.slice(0, at), stopped: true, stop: this.#stops.find((stop) => all.startsWith(stop, at))! };
    }
    const held = Math.max(...this.#stops.map((stop) => overlap(all, stop)));
    this.#held = all.slice(all.length - held);
    const certain = all.slice(0, all.length - held);
    this.#told += certain;
    return { text: certain, stopped: false };
  }

  /** Where the next stop string begins. */
  #find(text: string, from: number): number | undefined {
    const found = this.#stops.map((stop) => text.indexOf(stop, from)).filter((at) => at >= 0);
    return found.length === 0 ? undefined : Math.min(...found);
  }

  /** What was held back for nothing. */
  end(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }
}

/** The length of the longest end of `text` that `stop` begins with. */
function overlap(text: string, stop: string): number {
  for (let length = Math.min(text.length, stop.length - 1); length > 0; length--)
    if (text.endsWith(stop.slice(0, length))) return length;
  return 0;
}
