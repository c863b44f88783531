/** What is typed into a conversation: messages of one or several lines, commands, and what was typed before. Knows no model. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { keptFolder } from "#insitu/platform/model-folder-store.js";

/** What a line came to: more is wanted, a message to send, or a command with what stands behind it. */
type Typed =
  | { readonly kind: "more" }
  | { readonly kind: "nothing" }
  | { readonly kind: "message"; readonly text: string }
  | { readonly kind: "command"; readonly name: string; readonly rest: string };

/** Marks the first and the last line of a message of several. */
const fence = '"""';

/** Puts lines together: one that ends with a backslash goes on, and so does all between two lines of three quotes. */
export class ChatInput {
  #lines: string[] = [];
  #isFenced = false;

  /** Takes a line. */
  line(given: string): Typed {
    if (this.#isFenced) {
      if (!given.trimEnd().endsWith(fence)) return this.#keep(given);
      this.#isFenced = false;
      return this.#message(given.trimEnd().slice(0, -fence.length));
    }
    if (this.#lines.length === 0 && given.trimStart().startsWith(fence)) {
      const rest = given.trimStart().slice(fence.length);
      if (rest.trimEnd().endsWith(fence)) return this.#message(rest.trimEnd().slice(0, -fence.length));
      this.#isFenced = true;
      return rest === "" ? { kind: "more" } : this.#keep(rest);
    }
    if (given.endsWith("\\")) return this.#keep(given.slice(0, -1));
    if (this.#lines.length > 0) return this.#message(given);
    const [, name, rest] = /^\/(\w*)\s*(.*)$/.exec(given.trim()) ?? [];
    if (name !== undefined) return { kind: "command", name, rest: rest.trim() };
    return given.trim() === "" ? { kind: "nothing" } : { kind: "message", text: given };
  }

  /** What was begun is forgotten; false where nothing was. */
  drop(): boolean {
    const hadSome = this.#lines.length > 0 || this.#isFenced;
    this.#lines = [];
    this.#isFenced = false;
    return hadSome;
  }

  #keep(line: string): Typed {
    this.#lines.push(line);
    return { kind: "more" };
  }

  #message(last: string): Typed {
    const text = [...this.#lines, ...(last === "" ? [] : [last])].join("\n");
    this.#lines = [];
    return text.trim() === "" ? { kind: "nothing" } : { kind: "message", text };
  }
}

/** Lines that are kept. */
const mostLines = 500;

const historyFile = (): string => join(keptFolder(), "chat-history");

/** Lines that were typed before, the last one first; none where they cannot be read. */
export function readHistory(): string[] {
  try {
    return readFileSync(historyFile(), "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .toReversed();
  } catch {
    return [];
  }
}

/** Keeps lines for the next time, the last one first; where that cannot be, the conversation is not held up. */
export function keepHistory(lines: readonly string[]): void {
  try {
    mkdirSync(keptFolder(), { recursive: true });
    const text = lines.slice(0, mostLines).toReversed().join("\n");
    writeFileSync(historyFile(), `${text}\n`, { mode: 0o600 });
  } catch {
    // What was typed is gone with the terminal then.
  }
}
