/** What a head guesses for one text. It draws with the text's own chance, so that the two agree often. */
import type { ChosenRow, MadeText } from "#insitu/engine/made-text.js";
import type { Follower } from "#insitu/engine/text-ask.js";
import type { State } from "#insitu/session/state.js";
import type { HeadModel } from "./head-model.js";

/** Guesses for one text. */
export class HeadFollower implements Follower {
  readonly #made: MadeText;
  readonly #head: HeadModel;
  readonly #state: State;
  readonly #capacity: number;
  /** Rows of its caches that are not guesses. */
  #length = 0;
  #chosen: readonly ChosenRow[] = [];
  #wanted = 0;
  #guesses: number[] = [];
  /** What stands for the hidden state behind the last guess. */
  #feedback: Float32Array | undefined;
  #isEnded = false;
  /** The run that is under way. */
  #reading: Promise<void> = Promise.resolve();
  isOver = false;

  constructor(made: MadeText, head: HeadModel) {
    this.#made = made;
    this.#head = head;
    this.#capacity = made.mostRows;
    this.#state = head.open(this.#capacity);
  }

  get guesses(): readonly number[] {
    return this.#guesses;
  }

  get unread(): number {
    return this.#chosen.length;
  }

  get isDone(): boolean {
    return this.isOver || this.#isEnded || this.#guesses.length >= this.#wanted;
  }

  ask(count: number): boolean {
    this.#chosen = [...this.#chosen, ...this.#made.takeChosen()];
    this.#guesses = [];
    this.#feedback = undefined;
    // Where hidden states did not come, there is nothing to guess by.
    this.#isEnded = this.#chosen.length === 0;
    const room = this.#capacity - this.#length - this.#chosen.length;
    this.#wanted = Math.min(count, room + 1);
    if (room < 0) return false;
    this.#state.rewind(this.#length);
    return true;
  }

  /** Makes one guess. One that cannot be made is the last. */
  advance(): Promise<void> {
    this.#reading = this.#advance().catch(() => void (this.isOver = true));
    return this.#reading;
  }

  async #advance(): Promise<void> {
    const chosen = this.#chosen;
    const isFirst = chosen.length > 0;
    const last = this.#guesses.at(-1)!;
    const tokens = isFirst ? chosen.map(({ token }) => token) : [last];
    const hidden = isFirst ? chosen.map((row) => row.hidden) : [this.#feedback!];
    const position = this.#length + Math.max(0, this.#guesses.length - 1);
    const { logits, feedback } = await this.#head.read(this.#state, position, tokens, hidden, !isFirst);
    if (isFirst) {
      this.#length += tokens.length;
      this.#chosen = [];
    }
    const token = this.#made.guessOf(logits, this.#guesses);
    if (token !== undefined) this.#guesses.push(token);
    this.#feedback = feedback;
    this.#isEnded = token === undefined || feedback === undefined;
  }

  async release(): Promise<void> {
    this.isOver = true;
    await this.#reading;
    this.#state.release();
  }
}
