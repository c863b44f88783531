/** At most so many tokens of thought: then the mark that ends them is forced, and the reply goes on behind it. One for each text. */
import type { HeldConstraint } from "#insitu/choice/constraint.js";
import { type TokenDecoder, TextStream } from "#insitu/engine/text-stream.js";
import type { ThinkingMarks } from "./family.js";

/** What a budget knows of the model. */
interface BudgetParts {
  readonly marks: ThinkingMarks;
  /** Tokens of thought at most. */
  readonly most: number;
  /** True if the prompt ends inside of thoughts. */
  readonly isThinking: boolean;
  readonly decoder: TokenDecoder;
  /** Control tokens that are spelled out. */
  readonly markers: ReadonlyMap<number, string>;
  /** The tokens of the mark that ends thoughts. */
  readonly endTokens: readonly number[];
}

/** Where a text is after one of its tokens. */
interface Place {
  readonly state: "before" | "thinking" | "after";
  /** Tokens of thought so far. */
  readonly spent: number;
  /** Tokens of the end mark that were forced. */
  readonly forced: number;
  /** The text that may still become a mark. */
  readonly tail: string;
}

/** Keeps a text to a budget, and to what else it must obey. */
export class ThinkingBudget implements HeldConstraint {
  readonly #parts: BudgetParts;
  readonly #inner: HeldConstraint | undefined;
  #path: Place[];
  #stream: TextStream;

  constructor(parts: BudgetParts, inner?: HeldConstraint) {
    this.#parts = parts;
    this.#inner = inner;
    this.#stream = new TextStream(parts.decoder);
    this.#path = [{ state: parts.isThinking ? "thinking" : "before", spent: 0, forced: 0, tail: "" }];
  }

  fillMask(mask: Uint32Array): boolean {
    const token = this.#forced;
    if (token === undefined) {
      if (this.#inner !== undefined) return this.#inner.fillMask(mask);
      mask.fill(0xffffffff);
      return false;
    }
    mask.fill(0);
    mask[token >>> 5] |= 1 << (token & 31);
    return true;
  }

  accept(token: number): boolean {
    if (this.#inner?.accept(token) === false) return false;
    this.#path.push(this.#after(this.#path.at(-1)!, token));
    return true;
  }

  rollback(count: number): void {
    this.#path.length = Math.max(1, this.#path.length - count);
    // What was decoded is no longer the text's end; marks that lie across are found in what follows.
    this.#stream = new TextStream(this.#parts.decoder);
    this.#inner?.rollback(count);
  }

  allows(text: string): boolean {
    return this.#forced === undefined && (this.#inner?.allows?.(text) ?? this.#inner?.terminated ?? true);
  }

  get mayEnd(): boolean {
    return this.#forced === undefined && this.#inner?.mayEnd !== false;
  }

  get terminated(): boolean {
    return this.#forced === undefined && this.#inner?.terminated === true;
  }

  release(): void {
    this.#inner?.release();
  }

  /** The token that must come next. */
  get #forced(): number | undefined {
    const { state, spent, forced } = this.#path.at(-1)!;
    const { endTokens, most } = this.#parts;
    return state === "thinking" && spent >= most ? endTokens[forced] : undefined;
  }

  #after(at: Place, token: number): Place {
    const { marks, most, endTokens, markers, decoder } = this.#parts;
    if (at.state === "after") return at;
    const marker = markers.get(token);
    const text = marker === undefined ? this.#stream.push(token) : this.#stream.end() + marker;
    if (marker !== undefined) this.#stream = new TextStream(decoder);
    const tail = at.tail + text;
    if (at.state === "before") {
      const trimmed = tail.trimStart();
      if (trimmed.startsWith(marks.begin)) return { ...at, state: "thinking", tail: trimmed.slice(marks.begin.length) };
      // What begins otherwise holds no thoughts.
      return { ...at, tail: trimmed, state: marks.begin.startsWith(trimmed) ? "before" : "after" };
    }
    if (at.spent >= most) {
      const forced = at.forced + 1;
      return forced === endTokens.length ? { ...at, state: "after" } : { ...at, forced };
    }
    if (tail.includes(marks.end)) return { ...at, state: "after" };
    return { ...at, spent: at.spent + 1, tail: tail.slice(-marks.end.length) };
  }
}
