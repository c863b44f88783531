/**
 * The source of a JavaScript regular expression with the flag u → a tree. The source was accepted by `RegExp` before, so that only what
 * the tree cannot say is refused: back references, word boundaries and modifiers.
 */
import { mostNesting, mostPatternLength, refusePattern } from "./limits.js";

/** A part of a pattern. */
export type Tree =
  /** One character out of a set, which `source` writes as a pattern of its own. */
  | { readonly kind: "set"; readonly source: string }
  | { readonly kind: "sequence"; readonly parts: readonly Tree[] }
  | { readonly kind: "choice"; readonly options: readonly Tree[] }
  | {
      readonly kind: "repeat";
      readonly body: Tree;
      readonly least: number;
      readonly most: number;
      readonly lazy: boolean;
    }
  | { readonly kind: "look"; readonly body: Tree; readonly behind: boolean; readonly negated: boolean }
  | { readonly kind: "group"; readonly body: Tree; readonly index: number }
  | { readonly kind: "edge"; readonly end: boolean };

/** A pattern and how many groups it captures. */
export interface ParsedPattern {
  readonly tree: Tree;
  readonly groups: number;
}

/** What begins a group, longest first. */
const groupBeginnings = ["(?<=", "(?<!", "(?=", "(?!", "(?:"] as const;

/** Throws for a pattern that cannot be read, with the reason why. */
type Refuse = (source: string, why: string) => never;

/** Reads a pattern; `refuse` has the words for what is not read. */
export function parsePattern(source: string, refuse: Refuse = refusePattern): ParsedPattern {
  if (source.length > mostPatternLength)
    refuse(source, `has ${source.length} characters, more than ${mostPatternLength}`);
  const parser = new Parser(source, refuse);
  const tree = parser.choice(0);
  return { tree, groups: parser.groups };
}

class Parser {
  readonly #source: string;
  readonly #refuse: Refuse;
  #at = 0;
  groups = 0;

  constructor(source: string, refuse: Refuse) {
    this.#source = source;
    this.#refuse = refuse;
  }

  choice(depth: number): Tree {
    if (depth > mostNesting) this.#refuse(this.#source, `nests more than ${mostNesting} groups`);
    const options = [this.#sequence(depth)];
    while (this.#take("|")) options.push(this.#sequence(depth));
    return options.length === 1 ? options[0] : { kind: "choice", options };
  }

  #sequence(depth: number): Tree {
    const parts: Tree[] = [];
    while (this.#at < this.#source.length && !"|)".includes(this.#source[this.#at]))
      parts.push(this.#quantified(this.#atom(depth)));
    return parts.length === 1 ? parts[0] : { kind: "sequence", parts };
  }

  #quantified(body: Tree): Tree {
    const [text, least, comma, most] = /^(?:[*+?]|\{(\d+)(,?)(\d*)\})/.exec(this.#rest(64)) ?? [];
    if (text === undefined) return body;
    this.#at += text.length;
    const lazy = this.#take("?");
    if (text === "*") return { kind: "repeat", body, least: 0, most: Infinity, lazy };
    if (text === "+") return { kind: "repeat", body, least: 1, most: Infinity, lazy };
    if (text === "?") return { kind: "repeat", body, least: 0, most: 1, lazy };
    const upTo = comma === "" ? Number(least) : most === "" ? Infinity : Number(most);
    return { kind: "repeat", body, least: Number(least), most: upTo, lazy };
  }

  #atom(depth: number): Tree {
    const character = String.fromCodePoint(this.#source.codePointAt(this.#at)!);
    switch (character) {
      case "(":
        return this.#group(depth);
      case "[":
        return this.#set();
      case "\\":
        return this.#escape();
      case "^":
      case "$":
        this.#at++;
        return { kind: "edge", end: character === "$" };
      default:
        this.#at += character.length;
        return { kind: "set", source: character };
    }
  }

  #group(depth: number): Tree {
    const beginning = groupBeginnings.find((text) => this.#source.startsWith(text, this.#at));
    const named = beginning === undefined ? /^\(\?<[^>]+>/.exec(this.#rest(200))?.[0] : undefined;
    if (beginning === undefined && named === undefined && this.#source[this.#at + 1] === "?")
      this.#refuse(this.#source, "has a group whose modifiers are not known");
    this.#at += (beginning ?? named ?? "(").length;
    const index = beginning === undefined ? ++this.groups : 0;
    const body = this.choice(depth + 1);
    this.#at++; // the closing parenthesis
    if (beginning === "(?:") return body;
    if (beginning === undefined) return { kind: "group", body, index };
    return { kind: "look", body, behind: beginning.startsWith("(?<"), negated: beginning.endsWith("!") };
  }

  /** A class ends at the first bracket that is not escaped. */
  #set(): Tree {
    const start = this.#at;
    for (this.#at++; this.#source[this.#at] !== "]"; this.#at++) if (this.#source[this.#at] === "\\") this.#at++;
    this.#at++;
    return { kind: "set", source: this.#source.slice(start, this.#at) };
  }

  #escape(): Tree {
    const next = this.#source[this.#at + 1];
    if (/[1-9k]/.test(next)) this.#refuse(this.#source, "refers back to a group, which no bound can be given for");
    if (next === "b" || next === "B") this.#refuse(this.#source, "has a word boundary that was not written out");
    const pair = /^\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}/.exec(this.#rest(12));
    const long = pair ?? /^\\(?:[pPu]\{[^}]*\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[A-Za-z])/.exec(this.#rest(200));
    const source = long?.[0] ?? this.#source.slice(this.#at, this.#at + 2);
    this.#at += source.length;
    return { kind: "set", source };
  }

  #take(character: string): boolean {
    if (this.#source[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #rest(length: number): string {
    return this.#source.slice(this.#at, this.#at + length);
  }
}
