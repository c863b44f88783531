/**
 * Grammars as llama.cpp and vLLM take them (GBNF, an EBNF): rules by name, texts in quotes, classes of characters, groups and repeats. Reads them;
 * what they come to is grammar-rules.ts's.
 */
import { InsituError } from "#insitu/base/error.js";
import { limits } from "./limits.js";

/** A part of a rule. */
export type RulePart =
  | { readonly kind: "text"; readonly text: string }
  /** A class of characters, as regular expressions with the flag u write it. */
  | { readonly kind: "set"; readonly source: string }
  | { readonly kind: "rule"; readonly name: string }
  | { readonly kind: "sequence"; readonly parts: readonly RulePart[] }
  | { readonly kind: "choice"; readonly options: readonly RulePart[] }
  | { readonly kind: "repeat"; readonly body: RulePart; readonly least: number; readonly most: number };

/** The error for a grammar that cannot be enforced. */
export const grammarRefusal = (why: string): InsituError =>
  new InsituError("invalid-argument", `the grammar cannot be enforced: ${why}`);

/** Rules of one grammar. */
const mostRules = 2000;

/** Groups inside of each other. */
const mostDepth = 64;

/** Reads a grammar's rules by their names. */
export function readGrammar(source: string): ReadonlyMap<string, RulePart> {
  return new GrammarReader(source).rules();
}

class GrammarReader {
  readonly #source: string;
  #at = 0;
  #parts = 0;

  constructor(source: string) {
    this.#source = source;
  }

  rules(): ReadonlyMap<string, RulePart> {
    const rules = new Map<string, RulePart>();
    for (this.#blanks(true); this.#at < this.#source.length; this.#blanks(true)) {
      const name = this.#name() ?? this.#refuse("a rule begins with its name");
      this.#blanks(false);
      if (!this.#take("::=") && !this.#take("=")) this.#refuse(`the rule "${name}" wants ::= behind its name`);
      if (rules.size >= mostRules) this.#refuse(`it has more than ${mostRules} rules`);
      if (rules.has(name)) this.#refuse(`the rule "${name}" is there already`);
      this.#blanks(true);
      rules.set(name, this.#choice(0, false));
    }
    return rules;
  }

  #refuse(why: string): never {
    const line = this.#source.slice(0, this.#at).split("\n").length;
    throw grammarRefusal(`line ${line}: ${why}`);
  }

  #count(): void {
    if (++this.#parts > limits.bytes / 16) this.#refuse(`it has more than ${limits.bytes / 16} parts`);
  }

  #take(text: string): boolean {
    if (!this.#source.startsWith(text, this.#at)) return false;
    this.#at += text.length;
    return true;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  /** Blanks and comments; ends of lines too, where a rule goes on behind them. */
  #blanks(lines: boolean): void {
    this.#match(lines ? /(?:\s|#[^\n]*)*/y : /(?:[^\S\n]|#[^\n]*)*/y);
  }

  #name(): string | undefined {
    return this.#match(/[A-Za-z_][\w-]*/y);
  }

  #choice(depth: number, inGroup: boolean): RulePart {
    if (depth > mostDepth) this.#refuse(`it nests more than ${mostDepth} groups`);
    const options = [this.#sequence(depth, inGroup)];
    for (;;) {
      // An alternative may stand on a line of its own.
      const before = this.#at;
      this.#blanks(true);
      if (!this.#take("|")) {
        if (!inGroup) this.#at = before;
        return options.length === 1 ? options[0] : { kind: "choice", options };
      }
      this.#blanks(true);
      options.push(this.#sequence(depth, inGroup));
    }
  }

  #sequence(depth: number, inGroup: boolean): RulePart {
    const parts: RulePart[] = [];
    for (;;) {
      this.#blanks(inGroup);
      const part = this.#repeated(depth);
      if (part === undefined) return parts.length === 1 ? parts[0] : { kind: "sequence", parts };
      parts.push(part);
    }
  }

  #repeated(depth: number): RulePart | undefined {
    let body = this.#single(depth);
    if (body === undefined) return undefined;
    for (;;) {
      this.#count();
      const sign = this.#match(/[*+?]|\{\s*\d*\s*(?:,\s*\d*\s*)?\}/y);
      if (sign === undefined) return body;
      const [least, most] = this.#bounds(sign);
      body = { kind: "repeat", body, least, most };
    }
  }

  #bounds(sign: string): readonly [number, number] {
    if (sign === "*") return [0, Infinity];
    if (sign === "+") return [1, Infinity];
    if (sign === "?") return [0, 1];
    const [, first, comma, second] = /\{\s*(\d*)\s*(,)?\s*(\d*)\s*\}/.exec(sign)!;
    const least = Number(first);
    const most = comma === undefined ? least : second === "" ? Infinity : Number(second);
    if (first === "" && second === "") this.#refuse(`${sign} says no count`);
    if (least > most || least > limits.count || (most > limits.count && most !== Infinity))
      this.#refuse(`${sign} must count from a least to a most, ${limits.count} and fewer`);
    return [least, most];
  }

  #single(depth: number): RulePart | undefined {
    const sign = this.#source[this.#at];
    if (sign === '"') return { kind: "text", text: this.#text() };
    if (sign === "[") return { kind: "set", source: this.#set() };
    if (sign === ".") {
      this.#at++;
      return { kind: "set", source: "[^]" };
    }
    if (sign === "(") {
      this.#at++;
      this.#blanks(true);
      const body = this.#choice(depth + 1, true);
      this.#blanks(true);
      if (!this.#take(")")) this.#refuse("a group is not closed");
      return body;
    }
    const before = this.#at;
    const name = this.#name();
    if (name === undefined) {
      if (sign !== undefined && !/[\s|)#]/.test(sign)) this.#refuse(`${JSON.stringify(sign)} cannot stand there`);
      return undefined;
    }
    // A name with ::= behind it begins the next rule.
    if (/^[^\S\n]*(?:::)?=/.test(this.#source.slice(this.#at, this.#at + 64))) {
      this.#at = before;
      return undefined;
    }
    return { kind: "rule", name };
  }

  #text(): string {
    const found = this.#match(/"(?:\\[^]|[^"\\\n])*"/y) ?? this.#refuse("a text in quotes is not closed");
    return found
      .slice(1, -1)
      .replaceAll(/\\(x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|[^])/gu, (_, escape: string) => {
        const known: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };
        if (escape.length === 1) return known[escape] ?? escape;
        const code = parseInt(escape.slice(1), 16);
        return code > 0x10ffff ? this.#refuse(`\\${escape} is no character`) : String.fromCodePoint(code);
      });
  }

  #set(): string {
    const found = this.#match(/\[\^?(?:\\[^]|[^\]\\])*\]/y) ?? this.#refuse("a class of characters is not closed");
    const source = found
      .replaceAll(/\\U([\da-fA-F]{8})/g, (_, digits: string) => `\\u{${parseInt(digits, 16).toString(16)}}`)
      .replaceAll(/(?<!\\)\[(?!^)/g, (sign, at: number) => (at === 0 ? sign : "\\["))
      .replaceAll(/\\(["'])/g, "$1");
    try {
      new RegExp(source, "u");
      return source;
    } catch {
      return this.#refuse(`${found} is no class of characters`);
    }
  }
}
