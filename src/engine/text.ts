/**
 * One text in the engine: what it has still to read, what it wants after that, and who hears of it. `MadeText` makes tokens, `EmbeddedText` adds up
 * hidden states. Runs nothing and plans nothing.
 */
import type { Context } from "./context.js";
import type { Lane } from "./lane.js";
import type { OneDrawing } from "../decoder/token-drawer.js";
import type { PartResult, StepPart, Want } from "./step.js";

/** Whose text it is. */
export interface TextOwner {
  readonly id: string;
  /** Turns go round over these. */
  readonly tenant: string;
  /** Higher ones first. */
  readonly priority: number;
  /** Prefixes are shared between texts of one salt only. */
  readonly salt: string;
}

/** A text that reads. */
export abstract class EngineText {
  readonly owner: TextOwner;
  readonly context: Context;
  /** Its tokens: the prompt's and those that were made. */
  readonly tokens: number[];
  /** Of them, or of guesses behind them, those that are to be read next. */
  #pending: readonly number[];
  /** What the context holds is no longer the beginning of the text. */
  #hasForgotten = false;
  /** A step that is under way has what it waits for. */
  #isWaiting = false;
  #drawnAhead = 0;
  /** Nobody hears of it any more. */
  isOver = false;
  /** It came to its end by itself. */
  isWhole = false;

  /** The context holds the beginning of the tokens. */
  constructor(owner: TextOwner, context: Context, tokens: readonly number[]) {
    this.owner = owner;
    this.context = context;
    this.tokens = [...tokens];
    context.expect(tokens.length);
    this.#pending = this.tokens.slice(context.length);
  }

  /** Rows that it may have in the end. */
  abstract get mostRows(): number;

  /** True if somebody wants it to go on now. */
  abstract get isAsked(): boolean;

  /** What is wanted once all that is known was read. */
  protected abstract get wants(): Want;

  /** The output of the model that is handed out with its logits; none where left out. */
  get reads(): string | undefined {
    return undefined;
  }

  /** How the token behind its last is drawn where the model runs; undefined where it is not. */
  get drawing(): OneDrawing | undefined {
    return undefined;
  }

  /** Tokens drawn by steps that were begun which have not come. */
  get drawnAhead(): number {
    return this.#drawnAhead;
  }

  /** Tokens that one submission may draw: by the pace of its lane where left out. */
  get atOnce(): number | undefined {
    return 1;
  }

  /** Tokens that it may have drawn before any of them has come. */
  get mostAhead(): number {
    return 1;
  }

  /** Tokens to be read that the host knows. */
  get pending(): number {
    return this.#pending.length;
  }

  /** Tokens to be read, the one that was drawn last among them. */
  get unread(): number {
    return this.#pending.length + (this.drawnAhead > this.context.ahead ? 1 : 0);
  }

  /** True if it may take over rows that others have read of its beginning. */
  get sharesRows(): boolean {
    return !this.#hasForgotten;
  }

  /** True if it reads over old rows: the context is full. */
  get slides(): boolean {
    return this.context.room === 0 && this.#pending.length > 0;
  }

  /** True if a step can read more of it now. A token that is not known is read right behind the step that draws it, or once it is known. */
  isReady(lane: Lane): boolean {
    if (this.isOver || this.#isWaiting || this.unread === 0) return false;
    if (this.drawnAhead === 0) return true;
    return this.#pending.length === 0 && lane.drawn.has(this) && this.context.room > 0;
  }

  /** The part of it that reads its next `count` tokens. */
  part(count: number): StepPart {
    if (this.slides) {
      const over = this.context.nextSlide(this.#pending[0]);
      if (over !== undefined) {
        const wants = over.isToken && this.#pending.length === 1 ? this.wants : "nothing";
        return { text: this, tokens: over.tokens, wants, keep: 1, over };
      }
      this.#pending = [...this.context.startAgain(), ...this.#pending];
      this.#hasForgotten = true;
    }
    const wants = count >= this.#pending.length ? this.wants : "nothing";
    const tokens = this.#pending.length === 0 ? "drawn" : this.#pending.slice(0, count);
    return { text: this, tokens, wants, keep: wants === "logits" || wants === "token" ? this.keep : 1 };
  }

  /** Forgets tokens at the end of what was read, to read them together with those that follow; false where the caches cannot go back. */
  readAgain(count: number): boolean {
    const { context } = this;
    const again = context.tokens.slice(context.length - count);
    if (count === 0) return true;
    // What goes back to checkpoints would read more again than was asked for.
    if (!context.rows.goesBack && count < context.length) return false;
    if (!context.rewind(context.length - count)) return false;
    this.#pending = [...again, ...this.#pending];
    return true;
  }

  /** The last tokens that it looks behind: more than one where guesses are tried out. */
  protected get keep(): number {
    return 1;
  }

  /** True if all that is pending is read in one run. */
  get triesOut(): boolean {
    return this.keep > 1;
  }

  /** Notes that a part of it was begun, `count` steps at once. */
  begun({ tokens, wants, over }: StepPart, count: number): void {
    const { context } = this;
    if (over !== undefined) {
      context.slide(over);
      this.#hasForgotten = true;
      if (over.isToken) this.#pending = this.#pending.slice(1);
    } else if (tokens === "drawn") context.read(count);
    else {
      context.read(tokens);
      if (count > 1) context.read(count - 1);
      this.#pending = this.#pending.slice(tokens.length);
    }
    this.#isWaiting = wants === "logits" || wants === "hidden";
    if (wants === "token") this.#drawnAhead += count;
  }

  /** Takes what came of a part. Throws where the text cannot go on. */
  land(result: PartResult): void {
    if (result.kind === "failed") throw result.error;
    if (result.kind === "logits" || result.kind === "hidden") this.#isWaiting = false;
    if (result.kind === "token") this.#drawnAhead--;
    if (!this.isOver) this.landed(result);
  }

  protected abstract landed(result: PartResult): void;

  /** A token is part of the text, and `guesses` are tried out behind it. */
  protected append(token: number, guesses: readonly number[] = []): void {
    this.tokens.push(token);
    if (this.context.ahead > 0) this.context.learn(token);
    else this.#pending = [...(this.#hasForgotten ? [token] : this.tokens.slice(this.context.length)), ...guesses];
  }

  /** Tokens are tried out behind those that are to be read. */
  protected addPending(guesses: readonly number[]): void {
    this.#pending = [...this.#pending, ...guesses];
  }

  /** The last tokens that were to be read are not. */
  protected dropPending(count: number): void {
    this.#pending = this.#pending.slice(0, this.#pending.length - count);
  }

  /** It is another text from now on, which may begin alike: all of it but that is to be read, its last token at least. False where the caches cannot go back. */
  protected turnTo(tokens: readonly number[]): boolean {
    const { context } = this;
    const most = Math.min(context.length, tokens.length - 1);
    let same = 0;
    while (same < most && context.tokens[same] === tokens[same]) same++;
    if (!context.rewind(same)) return false;
    this.tokens.length = Math.min(this.tokens.length, context.length);
    for (let at = this.tokens.length; at < tokens.length; at++) this.tokens.push(tokens[at]);
    this.catchUp();
    return true;
  }

  /** A token is part of the text that was read with guesses before it. */
  protected confirm(token: number): void {
    this.tokens.push(token);
  }

  /** All that it has read is gone: it is read again once all its tokens are known. */
  loseRows(): void {
    this.context.rewind(0);
    this.#pending = [...this.tokens];
  }

  /** The context has taken over more of it: that need not be read. */
  catchUp(): void {
    this.#pending = this.tokens.slice(this.context.length);
  }

  /** Its reading begins, or begins again. */
  start(): void {}

  /** Ends it with an error. */
  abstract fail(error: Error): void;
}
