/**
 * The tokens that tokenizer.json adds to the vocabulary, and how texts are split at them. A control token, one that tells the model where
 * turns begin and end, is found only where a trusted hand has written it.
 */
import { markOf, type MarkedText } from "./marked-text.js";

/** A token of tokenizer.json's added_tokens. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
  /** True if it is looked for in the normalised text. */
  readonly normalized: boolean;
  readonly lstrip: boolean;
  readonly rstrip: boolean;
}

/** A part of a text: a token, or text between tokens. */
export interface Section {
  readonly part: MarkedText;
  readonly token?: AddedToken | undefined;
}

/** True if a token, by its spelling, may stand where these are the marks of its first and last character. */
export type Allows = (spelling: string, first: string, last: string) => boolean;

/** Everything is allowed where nobody asks where a text comes from. */
export const allowsAll: Allows = () => true;

/**
 * Control tokens are the special ones, and those that the chat template spells out. Their spelling counts where the template wrote both
 * its ends; what is between may be given, as the role is in `<|role|>`. What the model itself said may hold tokens that are not special.
 */
export function allowsWritten(spelledByTemplate: ReadonlySet<string>, special: ReadonlySet<string>): Allows {
  return (spelling, first, last) => {
    const isSpecial = special.has(spelling);
    if (!isSpecial && !spelledByTemplate.has(spelling)) return true;
    const least = isSpecial ? markOf.template : markOf.model;
    return first <= least && last <= least;
  };
}

interface TrieNode {
  readonly next: Map<string, TrieNode>;
  token: AddedToken | undefined;
}

/** Finds tokens by their spelling. */
export class TokenSplitter {
  readonly #root: TrieNode = { next: new Map(), token: undefined };

  constructor(tokens: Iterable<readonly [spelling: string, token: AddedToken]>) {
    for (const [spelling, token] of tokens) {
      if (spelling === "") continue;
      let node = this.#root;
      for (let at = 0; at < spelling.length; at++) {
        let next = node.next.get(spelling[at]);
        if (next === undefined) node.next.set(spelling[at], (next = { next: new Map(), token: undefined }));
        node = next;
      }
      node.token = token;
    }
  }

  /** True if the text holds one of the tokens' spellings. */
  finds(text: string): boolean {
    for (let at = 0; at < text.length; at++)
      if (this.#begins(text[at]) && this.#longestAt(text, at, () => true) !== undefined) return true;
    return false;
  }

  /** The text in sections: at each place the longest token that is allowed there. */
  split(whole: MarkedText, allows: Allows): Section[] {
    const { text, marks } = whole;
    const sections: Section[] = [];
    let start = 0;
    for (let at = 0; at < text.length;) {
      const found = this.#begins(text[at])
        ? this.#longestAt(text, at, (token, end) => allows(token.content, marks[at], marks[end - 1]))
        : undefined;
      if (found === undefined) {
        at++;
        continue;
      }
      if (at > start) sections.push({ part: whole.slice(start, at) });
      sections.push({ part: whole.slice(at, found.end), token: found.token });
      at = start = found.end;
    }
    if (start < text.length) sections.push({ part: whole.slice(start) });
    return strip(sections);
  }

  #begins(character: string): boolean {
    return this.#root.next.has(character);
  }

  #longestAt(
    text: string,
    start: number,
    allows: (token: AddedToken, end: number) => boolean,
  ): { readonly token: AddedToken; readonly end: number } | undefined {
    let found: { readonly token: AddedToken; readonly end: number } | undefined;
    let node = this.#root.next.get(text[start]);
    for (let end = start + 1; node !== undefined; end++) {
      const { token } = node;
      if (token !== undefined && allows(token, end)) found = { token, end };
      node = node.next.get(text[end]);
    }
    return found;
  }
}

/** Takes the space beside tokens that swallow it. A token of nothing but space is no token any more. */
function strip(sections: Section[]): Section[] {
  const trim = (at: number, start: boolean, end: boolean): void => {
    const section = sections[at];
    const part = section?.part.trimmed(start, end);
    if (part !== undefined && part.length < section.part.length) sections[at] = { part };
  };
  sections.forEach(({ token }, at) => {
    if (token?.lstrip === true) trim(at - 1, false, true);
    if (token?.rstrip === true) trim(at + 1, true, false);
  });
  return sections;
}
