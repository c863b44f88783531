/** A text of a draft model: it follows another model's text, and guesses what that says next. It draws with the same chance, so that the two agree often. */
import type { Context } from "./context.js";
import type { MadeText } from "./made-text.js";
import type { PartResult, Want } from "./step.js";
import type { Follower } from "./text-ask.js";
import { EngineText } from "./text.js";

/** Guesses for one text. */
export class DraftText extends EngineText implements Follower {
  readonly #made: MadeText;
  #wanted = 0;
  #guesses: number[] = [];
  #isEnded = false;

  constructor(made: MadeText, context: Context) {
    super({ ...made.owner, id: `draft of ${made.owner.id}` }, context, context.tokens);
    this.#made = made;
  }

  get mostRows(): number {
    return Math.min(this.context.capacity, this.#made.mostRows);
  }

  get isAsked(): boolean {
    return !this.isDone;
  }

  protected get wants(): Want {
    return "logits";
  }

  /** What was guessed. */
  get guesses(): readonly number[] {
    return this.#guesses;
  }

  /** True if nothing more is guessed. */
  get isDone(): boolean {
    return this.isOver || this.#isEnded || this.#guesses.length >= this.#wanted;
  }

  /** Guesses so many tokens behind the text as it is now, as far as there is room; how many of its tokens must be read before. False where the caches cannot go back. */
  ask(count: number): boolean {
    const { tokens } = this.#made;
    this.#wanted = Math.min(count, this.context.capacity - tokens.length + 1);
    this.#guesses = [];
    this.#isEnded = false;
    return this.turnTo(tokens);
  }

  protected landed(result: PartResult): void {
    if (result.kind !== "logits" || this.isDone) return;
    // What is read next may be wrong.
    if (this.#guesses.length === 0) this.context.mark("guess");
    const token = this.#made.guessOf(result.at(0), this.#guesses);
    this.#isEnded = token === undefined;
    if (token === undefined) return;
    this.#guesses.push(token);
    if (!this.isDone) this.append(token);
  }

  fail(): void {
    this.isOver = true;
  }
}
