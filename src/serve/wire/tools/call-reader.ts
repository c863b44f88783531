/** A text that may call tools, in pieces → its content and its calls, as they come. One reader for each text. */
import type { TextEvent, ToldToken } from "../text-event.js";
import { newId } from "../identity.js";
import { CallScanner } from "./call-scanner.js";

/** How calls stand in a text. */
export interface CallMarks {
  /** What comes before the calls. */
  readonly begin: string;
  /** What comes after a call; nothing where a text ends with its calls. */
  readonly end: string;
  /** True where `begin` may be left out if the text begins with an object. */
  readonly bare: boolean;
}

/** Reads one text. */
export class CallReader {
  readonly #marks: CallMarks;
  /** True while text is content. */
  #outside = true;
  /** What may be the beginning of a mark, or stands between a mark and an object. */
  #held = "";
  #begun = false;
  /** True while nothing but blanks came after a call: they are no content. */
  #afterCall = false;
  #calls = 0;
  #scanner: CallScanner | undefined;
  /** What was read of a call that has no name yet: content, if it gets none. */
  #raw = "";
  #found: TextEvent[] = [];
  /** Tokens whose text is held. */
  #tokens: ToldToken[] = [];

  constructor(marks: CallMarks) {
    this.#marks = marks;
  }

  /** How many calls have begun. */
  get calls(): number {
    return this.#calls;
  }

  /** What a piece of the text tells. Tokens are told with content alone. */
  push(text: string, tokens: readonly ToldToken[] = []): TextEvent[] {
    this.#found = [];
    this.#held += text;
    while (this.#step());
    return this.#withTokens(tokens);
  }

  /** What is left at the text's end. */
  end(): TextEvent[] {
    this.#found = [];
    if (this.#scanner !== undefined && !this.#scanner.named) this.#content(this.#raw);
    if (this.#outside) this.#content(this.#held);
    this.#scanner = undefined;
    this.#held = "";
    return this.#withTokens([]);
  }

  /** What was found, with the tokens that became certain with it; those of calls are not told. */
  #withTokens(tokens: readonly ToldToken[]): TextEvent[] {
    this.#tokens.push(...tokens);
    const first = this.#found.findIndex(({ kind }) => kind === "content");
    if (first >= 0) this.#found[first] = { ...this.#found[first], tokens: this.#tokens } as TextEvent;
    if (first >= 0 || !this.#outside) this.#tokens = [];
    return this.#found;
  }

  /** Takes from what is held; false where more must come first. */
  #step(): boolean {
    if (this.#held === "") return false;
    if (this.#scanner !== undefined) return this.#scan(this.#scanner);
    return this.#outside ? this.#lookForCalls() : this.#lookForCall();
  }

  #lookForCalls(): boolean {
    const { begin, bare } = this.#marks;
    if (this.#afterCall) {
      this.#held = this.#held.trimStart();
      if (this.#held === "") return false;
      this.#afterCall = false;
    }
    if (bare && !this.#begun) {
      const trimmed = this.#held.trimStart();
      if (trimmed === "") return false;
      if (trimmed.startsWith("{")) {
        this.#held = trimmed;
        return this.#enter();
      }
    }
    const at = this.#held.indexOf(begin);
    if (at >= 0) {
      this.#content(this.#held.slice(0, at).trimEnd());
      this.#held = this.#held.slice(at + begin.length);
      return this.#enter();
    }
    // Blanks before a call are no content, and a part of the mark may be all there is of it so far.
    const open = /\s*$/.exec(this.#held)!.index;
    const partial = overlap(this.#held, begin);
    const blank = partial === 0 ? open : Math.min(/\s*$/.exec(this.#held.slice(0, -partial))!.index, open);
    const certain = Math.min(blank, this.#held.length - partial);
    this.#content(this.#held.slice(0, certain));
    this.#held = this.#held.slice(certain);
    return false;
  }

  #enter(): boolean {
    [this.#outside, this.#begun] = [false, true];
    return true;
  }

  /** Between a mark and an object, or between objects. */
  #lookForCall(): boolean {
    const { end } = this.#marks;
    const separators = /^[\s,;[\]]*/.exec(this.#held)![0];
    const rest = this.#held.slice(separators.length);
    if (rest === "") {
      this.#held = "";
      return false;
    }
    if (end !== "" && rest.startsWith(end)) {
      this.#held = rest.slice(end.length);
      [this.#outside, this.#afterCall] = [true, true];
      return this.#held !== "";
    }
    if (end !== "" && end.startsWith(rest)) {
      this.#held = rest;
      return false;
    }
    const named = this.#namedForm(rest);
    if (named === "wait") return false;
    this.#held = named?.form ?? rest;
    if (!this.#held.startsWith("{")) {
      // No call after all.
      this.#outside = true;
      this.#content(this.#held);
      this.#held = "";
      return false;
    }
    this.#raw = "";
    const call = this.#calls;
    this.#scanner = new CallScanner({
      name: (name) => {
        this.#calls = call + 1;
        this.#found.push({ kind: "call", call, id: newId("call_"), name });
      },
      arguments: (text) => this.#found.push({ kind: "arguments", call, text }),
    });
    return true;
  }

  /** `name[ARGS]{…}` and `name{…}`, as newer models of the kind without an end write it, in the form of an object. */
  #namedForm(rest: string): { readonly form: string } | "wait" | undefined {
    if (this.#marks.end !== "" || this.#marks.bare) return undefined;
    const found = /^([\w.-]+)(?:\[ARGS\])?\s*(?=\{)/.exec(rest);
    if (found !== null)
      return { form: `{"name":${JSON.stringify(found[1])},"arguments":${rest.slice(found[0].length)}` };
    return /^[\w.-]+(\[(A(R(G(S\]?)?)?)?)?)?\s*$/.test(rest) ? "wait" : undefined;
  }

  #scan(scanner: CallScanner): boolean {
    const taken = scanner.push(this.#held);
    this.#raw += this.#held.slice(0, taken);
    this.#held = this.#held.slice(taken);
    if (scanner.bad) {
      if (!scanner.named) this.#content(this.#raw);
      this.#outside = true;
    }
    if (!scanner.done && !scanner.bad) return false;
    this.#scanner = undefined;
    return this.#held !== "";
  }

  #content(text: string): void {
    if (text === "") return;
    this.#begun = true;
    this.#found.push({ kind: "content", text, tokens: [] });
  }
}

/** The length of the longest end of `text` that `mark` begins with. */
function overlap(text: string, mark: string): number {
  for (let length = Math.min(text.length, mark.length - 1); length > 0; length--)
    if (text.endsWith(mark.slice(0, length))) return length;
  return 0;
}
