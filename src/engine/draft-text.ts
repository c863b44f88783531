/**
 * A text of a draft model: it follows another model's text, and guesses what that says next. It draws with the same chance, so that the two agree often; where
 * both draw on their device, guesses come from there all at once.
 */
import type { OneDrawing } from "../decoder/token-drawer.js";
import type { Context } from "./context.js";
import type { MadeText } from "./made-text.js";
import type { PartResult, Want } from "./step.js";
import type { Follower } from "./text-ask.js";
import { EngineText } from "./text.js";

/** Guesses for one text. */
export class DraftText extends EngineText implements Follower {
  readonly #made: MadeText;
  readonly #draws: boolean;
  #drawing: OneDrawing | undefined;
  #wanted = 0;
  #guesses: number[] = [];
  #isEnded = false;

  /** `draws`: tokens can be drawn where its model runs. */
  constructor(made: MadeText, context: Context, draws: boolean) {
    super({ ...made.owner, id: `draft of ${made.owner.id}` }, context, context.tokens);
    this.#made = made;
    this.#draws = draws;
  }

  get mostRows(): number {
    return Math.min(this.context.capacity, this.#made.mostRows);
  }

  get isAsked(): boolean {
    return !this.isDone;
  }

  protected get wants(): Want {
    return this.#drawing === undefined ? "logits" : "token";
  }

  override get drawing(): OneDrawing | undefined {
    const counter = this.#guesses.length + this.drawnAhead;
    return this.#drawing && { ...this.#drawing, counter: this.#drawing.counter + counter };
  }

  override get atOnce(): number {
    return this.#drawing === undefined ? 1 : this.mostAhead;
  }

  override get mostAhead(): number {
    return this.#isEnded ? 0 : this.#wanted - this.#guesses.length - this.drawnAhead;
  }

  override isReady(lane: Parameters<EngineText["isReady"]>[0]): boolean {
    return (this.drawnAhead === 0 || this.mostAhead > 0) && super.isReady(lane);
  }

  /** What was guessed. */
  get guesses(): readonly number[] {
    return this.#guesses;
  }

  /** True if nothing more is guessed. */
  get isDone(): boolean {
    return this.isOver || (this.drawnAhead === 0 && (this.#isEnded || this.#guesses.length >= this.#wanted));
  }

  /** Guesses so many tokens behind the text as it is now, as far as there is room; how many of its tokens must be read before. False where the caches cannot go back. */
  ask(count: number): boolean {
    const { tokens } = this.#made;
    this.#wanted = Math.min(count, this.context.capacity - tokens.length + 1);
    this.#guesses = [];
    this.#isEnded = false;
    this.#drawing = this.#draws ? this.#made.guessDrawing : undefined;
    return this.turnTo(tokens);
  }

  protected landed(result: PartResult): void {
    if (result.kind === "token") return this.#drawn(result.token);
    if (result.kind !== "logits" || this.isDone) return;
    // What is read next may be wrong.
    if (this.#guesses.length === 0) this.context.mark("guess");
    const token = this.#made.guessOf(result.at(0), this.#guesses);
    this.#isEnded = token === undefined;
    if (token === undefined) return;
    this.#guesses.push(token);
    if (!this.isDone) this.append(token);
  }

  /** What was drawn behind the text's end is read all the same: it is forgotten with the next guess. */
  #drawn(token: number): void {
    this.#isEnded ||= token < 0 || this.#made.endsWith(token);
    if (!this.#isEnded) this.#guesses.push(token);
    if (!this.isDone) this.append(token);
  }

  fail(): void {
    this.isOver = true;
  }
}
