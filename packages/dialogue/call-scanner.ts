/** One call of a tool, `{"name": …, "arguments": {…}}`, read character by character: the name once it is known, arguments as they come. */

import { withoutControls } from "./argument-types.js";

/** Who hears what a scanner found. */
interface ScannerListener {
  name(name: string): void;
  /** A piece of the arguments; the name was told before. */
  arguments(text: string): void;
}

/** Names that models give to the arguments of a call. */
const argumentKeys: ReadonlySet<string> = new Set(["arguments", "parameters"]);

/** Reads one JSON object. What comes after it is not taken. */
export class CallScanner {
  readonly #listener: ScannerListener;
  #at: "start" | "key" | "colon" | "value" | "next" | "done" | "bad" = "start";
  #key = "";
  /** What was read of the key or value at hand. */
  #raw = "";
  #depth = 0;
  #inString = false;
  #escaped = false;
  #name: string | undefined;
  /** Arguments that came before the name. */
  #early: string | undefined;
  #hasArguments = false;
  /** How much of a value that is handed on as it comes was handed on. */
  #told = -1;

  constructor(listener: ScannerListener) {
    this.#listener = listener;
  }

  /** True once the object is closed. */
  get done(): boolean {
    return this.#at === "done";
  }

  /** True for what is no call: no object, broken JSON, or one without a name. */
  get bad(): boolean {
    return this.#at === "bad";
  }

  /** True once the name was told. */
  get named(): boolean {
    return this.#name !== undefined;
  }

  /** Reads on; how many characters were taken, which is all of them unless the object ended or went wrong. */
  push(text: string): number {
    let taken = 0;
    for (const character of text) {
      if (this.done || this.bad) break;
      this.#take(character);
      // What is no part of a call is left for whoever looks for the next.
      if (!this.bad) taken += character.length;
    }
    this.#tellValue();
    return taken;
  }

  #take(character: string): void {
    const blank = /\s/.test(character);
    switch (this.#at) {
      case "start":
        if (!blank) this.#at = character === "{" ? "key" : "bad";
        return;
      case "key":
        this.#takeKey(character, blank);
        return;
      case "colon":
        if (!blank) this.#begin(character === ":" ? "value" : "bad");
        return;
      case "value":
        this.#takeValue(character, blank);
        return;
      case "next":
        if (blank) return;
        if (character === ",") this.#begin("key");
        else if (character === "}") this.#close();
        else this.#at = "bad";
        return;
      case "done":
      case "bad":
        return;
      default:
        this.#at satisfies never;
    }
  }

  #begin(at: "key" | "value" | "bad"): void {
    this.#at = at;
    this.#raw = "";
    this.#depth = 0;
    this.#inString = false;
    this.#told = -1;
  }

  #takeKey(character: string, blank: boolean): void {
    if (this.#raw === "" && blank) return;
    if (this.#raw === "" && character === "}" && this.#key === "") return this.#close();
    if (this.#raw === "" && character !== '"') return void (this.#at = "bad");
    this.#raw += character;
    if (this.#raw.length > 1 && character === '"' && !this.#escaped) {
      this.#key = textOf(this.#raw) ?? "";
      this.#at = "colon";
    }
    this.#escaped = character === "\\" && !this.#escaped;
  }

  #takeValue(character: string, blank: boolean): void {
    if (this.#raw === "" && blank) return;
    const first = this.#raw === "" ? character : this.#raw[0];
    // Numbers and words end before what follows them.
    if (!'{["'.includes(first) && (blank || character === "," || character === "}")) {
      this.#endValue();
      if (!blank) this.#take(character);
      return;
    }
    this.#raw += this.#inString ? withoutControls(character) : character;
    if (this.#inString) {
      if (character === '"' && !this.#escaped) this.#inString = false;
      this.#escaped = character === "\\" && !this.#escaped;
    } else if (character === '"') [this.#inString, this.#escaped] = [true, false];
    else if (character === "{" || character === "[") this.#depth++;
    else if (character === "}" || character === "]") this.#depth--;
    if ('{["'.includes(first) && this.#depth === 0 && !this.#inString) this.#endValue();
  }

  #endValue(): void {
    this.#tellValue();
    const isWhole = this.#told >= 0;
    this.#at = "next";
    const value = isWhole ? undefined : valueOf(this.#raw);
    if (isWhole) return;
    if (value === undefined) return void (this.#at = "bad");
    if (this.#key === "name" && typeof value === "string" && this.#name === undefined) {
      this.#name = value;
      this.#listener.name(value);
      if (this.#early !== undefined) this.#listener.arguments(this.#early);
    } else if (argumentKeys.has(this.#key) && !this.#hasArguments) {
      this.#hasArguments = true;
      // Some models write the arguments as a text that holds JSON.
      const text = typeof value === "string" ? value.trim() || "{}" : value === null ? "{}" : this.#raw;
      if (this.#name === undefined) this.#early = text;
      else this.#listener.arguments(text);
    }
  }

  /** Hands on what is new of arguments that are an object, once the name is known. */
  #tellValue(): void {
    if (this.#at !== "value" || this.#name === undefined || this.#raw[0] !== "{") return;
    if (!argumentKeys.has(this.#key) || (this.#hasArguments && this.#told < 0)) return;
    this.#hasArguments = true;
    const from = Math.max(0, this.#told);
    this.#told = this.#raw.length;
    if (this.#told > from) this.#listener.arguments(this.#raw.slice(from));
  }

  #close(): void {
    this.#at = this.#name === undefined ? "bad" : "done";
    if (this.#name !== undefined && !this.#hasArguments) this.#listener.arguments("{}");
  }
}

function valueOf(raw: string): unknown {
  try {
    return JSON.parse(raw) as unknown;
  } catch {
    return undefined;
  }
}

const textOf = (raw: string): string | undefined => {
  const value = valueOf(raw);
  return typeof value === "string" ? value : undefined;
};
