/**
 * The prompt that several texts follow on, read once: each text goes on from its own fork. What was read is held while one of the texts is
 * being made, and otherwise goes where contexts wait; a text that is never begun holds nothing.
 */
import type { Context } from "../engine/context.js";
import type { ContextPool, ContextSource, TakenContext } from "./context-pool.js";

/** A source of contexts that have read one prompt but for its last token. */
export class SharedPrompt implements ContextSource {
  readonly #pool: ContextPool;
  readonly #read: () => Promise<Context>;
  /** Texts that were not begun yet. */
  #open: number;
  /** Texts that are being made, and those of them that wait for the prompt. */
  #running = 0;
  #waiting = 0;
  #reading: Promise<Context> | undefined;
  /** What has read the prompt. */
  #root: Context | undefined;
  /** What the last text to begin was given: no fork. */
  #last: Context | undefined;

  /** `read` makes a context that has read all of the prompt but its last token. */
  constructor(pool: ContextPool, texts: number, read: () => Promise<Context>) {
    this.#pool = pool;
    this.#open = texts;
    this.#read = read;
  }

  /** Reads the prompt, and leaves it where contexts wait. */
  async prepare(): Promise<void> {
    this.#pool.give(await this.#read());
  }

  async take(prompt: readonly number[]): Promise<TakenContext> {
    this.#running++;
    this.#open--;
    try {
      let root = this.#root;
      if (root === undefined) {
        // Of several that one reading wakes only the last may have the root itself: each counts until it is here.
        this.#waiting++;
        try {
          root = await this.#wait();
        } finally {
          this.#waiting--;
        }
      }
      const reused = prompt.length - 1;
      if (this.#open > 0 || this.#waiting > 0) return { context: root.fork(), reused };
      this.#root = undefined;
      this.#last = root;
      return { context: root, reused };
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  give(context: Context): void {
    if (context === this.#last) this.#pool.give(context);
    else context.release();
    this.#end();
  }

  /** Reads the prompt, once for all that ask meanwhile. */
  async #wait(): Promise<Context> {
    const reading = (this.#reading ??= this.#read());
    try {
      return (this.#root = await reading);
    } finally {
      if (this.#reading === reading) this.#reading = undefined;
    }
  }

  /** When the last text that was being made ends, what was read waits for the next one to begin. */
  #end(): void {
    if (--this.#running > 0) return;
    const root = this.#root;
    this.#root = undefined;
    if (root !== undefined) this.#pool.give(root);
  }
}
