/** The contexts of one model: those that wait keep what they have read, so that a prompt which begins alike is not read again. */
import { InsituError } from "../base/error.js";
import type { Context } from "../engine/context.js";
import type { DecoderEngine } from "../engine/decoder-engine.js";

/** A context, and how many tokens of the prompt it has read. */
export interface TakenContext {
  readonly context: Context;
  readonly reused: number;
}

/** Where a generation gets its context, and gives it back. */
export interface ContextSource {
  take(prompt: readonly number[]): TakenContext | Promise<TakenContext>;
  give(context: Context): void;
}

/** Hands out contexts and takes them back. */
export class ContextPool implements ContextSource {
  readonly #model: DecoderEngine;
  readonly #capacity: number;
  /** How many wait at most. */
  readonly #kept: number;
  /** The one that was used last comes last. */
  readonly #waiting: Context[] = [];
  #released = false;

  constructor(model: DecoderEngine, capacity: number, kept: number) {
    this.#model = model;
    this.#capacity = capacity;
    this.#kept = kept;
  }

  /** A context that has read the first `reused` tokens of the prompt, at most all but the last. */
  take(prompt: readonly number[]): TakenContext {
    const best = this.#waiting.toSorted((a, b) => commonLength(b, prompt) - commonLength(a, prompt)).at(0);
    if (best !== undefined) this.#waiting.splice(this.#waiting.indexOf(best), 1);
    return this.prepare(best, prompt);
  }

  /** A context taken back to what it has in common with the prompt; where it cannot go back, a new one in its place. */
  prepare(given: Context | undefined, prompt: readonly number[]): TakenContext {
    let context = given;
    try {
      if (context !== undefined)
        for (const reused of [Math.min(commonLength(context, prompt), prompt.length - 1), 0])
          if (context.rewind(reused)) return { context, reused: context.share(prompt.slice(0, -1)) };
      context?.release();
      context = this.#model.open();
      return { context, reused: context.share(prompt.slice(0, -1)) };
    } catch (error) {
      context?.release();
      throw error;
    }
  }

  /** Takes a context back. */
  give(context: Context): void {
    this.#waiting.push(context);
    while (this.#waiting.length > (this.#released ? 0 : this.#kept)) this.drop();
  }

  /** Lets go of the context that has waited longest; false where none waits. */
  drop(): boolean {
    const oldest = this.#waiting.shift();
    oldest?.release();
    return oldest !== undefined;
  }

  /** What the context that was used last has read, as bytes; rejects where none waits. */
  async save(): Promise<Uint8Array> {
    const context = this.#waiting.findLast(({ slid, isPartOfLong }) => !slid && !isPartOfLong);
    if (context === undefined)
      throw new InsituError(
        "invalid-state",
        'there is no context to save: generate first, with a model that keeps contexts (keep: 1 or more), and without going past the context (whenFull: "slide")',
      );
    const words = [context.tokens.length, ...context.tokens];
    const state = await context.rows.save();
    const bytes = new Uint8Array(4 * words.length + state.byteLength);
    const view = new DataView(bytes.buffer);
    words.forEach((word, at) => view.setUint32(4 * at, word, true));
    bytes.set(state, 4 * words.length);
    return bytes;
  }

  /** Adds a saved context to those that wait. Rejects, with nothing changed, where it is not whole or does not fit. */
  async restore(bytes: Uint8Array): Promise<void> {
    const refuse = (why: string): never => {
      throw new InsituError("invalid-state", `the saved context ${why}`);
    };
    if (!(bytes instanceof Uint8Array)) refuse("must be a Uint8Array");
    if (bytes.length < 4) refuse(`is cut off: it has ${bytes.length} bytes`);
    const words = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const count = words.getUint32(0, true);
    if (4 * (1 + count) > bytes.length)
      refuse(`is cut off: its ${count} tokens take more than its ${bytes.length} bytes`);
    if (count > this.#capacity) refuse(`has ${count} tokens, this model's contexts hold ${this.#capacity}`);
    const tokens = Array.from({ length: count }, (_, at) => words.getUint32(4 * (1 + at), true));
    const context = await this.#model.restore(bytes.subarray(4 * (1 + count)), tokens);
    const { countedRows = count } = context.rows;
    if (countedRows !== count) {
      context.release();
      refuse(`has ${count} tokens and ${countedRows} rows of keys and values`);
    }
    this.give(context);
  }

  /** Gives everything back. */
  release(): void {
    this.#released = true;
    while (this.drop());
  }
}

/** How many tokens of a prompt a context has read already. */
function commonLength(context: Context, prompt: readonly number[]): number {
  if (context.slid) return 0;
  let length = 0;
  while (length < context.tokens.length && context.tokens[length] === prompt[length]) length++;
  return length;
}
