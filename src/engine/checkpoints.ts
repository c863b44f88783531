/**
 * Where a text in a state without rows can go back to: checkpoints behind prompts and parts of them, and now and then behind tokens that were made. A
 * bounded number of them, close together near the end and further apart before it; what comes behind the nearest one is read again.
 */
import { mostCheckpoints } from "../base/checkpoint-bounds.js";
import { InsituError } from "../base/error.js";
import type { Checkpoint } from "../session/checkpoint.js";
import type { State } from "../session/state.js";
import type { MarkReason } from "./rows.js";
import { checkpoints as tuning } from "./tuning.js";

interface Mark {
  readonly length: number;
  readonly point: Checkpoint;
}

/** A checkpoint; undefined where there is no memory for one: the text can go on without it. */
function taken(state: State): Checkpoint | undefined {
  try {
    return state.checkpoint();
  } catch (error) {
    if (error instanceof InsituError && error.code === "out-of-memory") return undefined;
    throw error;
  }
}

/** The checkpoints of one text. */
export class Checkpoints {
  /** By their lengths; what lies in front of the first is read from the beginning. */
  #marks: Mark[] = [];
  /** In front of guesses that are being tried out. */
  #guess: Mark | undefined;

  get byteLength(): number {
    return this.#all.reduce((sum, { point }) => sum + point.byteLength, 0);
  }

  /** The state has read so many tokens: takes a checkpoint where one is worth its memory. */
  mark(state: State, length: number, why: MarkReason): void {
    if (length === 0) return;
    const last = this.#marks.at(-1)?.length ?? 0;
    if (why === "guess") {
      this.#forgetGuess();
      const point = last === length ? undefined : taken(state);
      this.#guess = point && { length, point };
      return;
    }
    if (last >= length || (why === "token" && length - last < tuning.tokens)) return;
    const point = taken(state);
    if (point === undefined) return;
    this.#marks.push({ length, point });
    const most = mostCheckpoints(point.byteLength);
    while (this.#marks.length > most) this.#drop(this.#dispensable());
  }

  /** Brings the state to the nearest checkpoint that has read at most so many tokens; how many it has read. */
  rewind(state: State, length: number): number {
    const nearest = this.#all.reduce<Mark | undefined>(
      (best, mark) => (mark.length <= length && mark.length > (best?.length ?? 0) ? mark : best),
      undefined,
    );
    if (nearest === undefined) state.reset();
    else state.goBack(nearest.point);
    const reached = nearest?.length ?? 0;
    if (this.#guess !== undefined && this.#guess.length > reached) this.#forgetGuess();
    while ((this.#marks.at(-1)?.length ?? 0) > reached) this.#drop(this.#marks.length - 1);
    return reached;
  }

  /** The same ones, for a fork of the state. */
  fork(): Checkpoints {
    const fork = new Checkpoints();
    fork.#marks = this.#marks.map(({ length, point }) => ({ length, point: point.retain() }));
    return fork;
  }

  release(): void {
    this.#forgetGuess();
    while (this.#marks.length > 0) this.#drop(0);
  }

  get #all(): readonly Mark[] {
    return this.#guess === undefined ? this.#marks : [...this.#marks, this.#guess];
  }

  #forgetGuess(): void {
    this.#guess?.point.release();
    this.#guess = undefined;
  }

  #drop(at: number): void {
    for (const { point } of this.#marks.splice(at, 1)) point.release();
  }

  /** The one whose loss makes least be read again, measured by how far back it lies: never the last. */
  #dispensable(): number {
    const end = this.#marks.at(-1)!.length;
    const lossOf = (at: number): number => {
      const [before, { length }, after] = [this.#marks[at - 1]?.length ?? 0, this.#marks[at], this.#marks[at + 1]];
      return (after.length - before) / (end - length + 1);
    };
    return this.#marks
      .slice(0, -1)
      .map((_, at) => at)
      .reduce((least, at) => (lossOf(at) < lossOf(least) ? at : least));
  }
}
