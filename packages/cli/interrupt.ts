/** Ctrl-C as a signal that work can be ended by. The second one ends the process, as without it. */
import { InsituError } from "#insitu/base/error.js";

/** The exit code after Ctrl-C, as shells have it: 128 and the signal's number. */
export const interruptedCode = 130;

/** Work that Ctrl-C ended before it had a result. */
export class Interrupted extends InsituError {}

/** Listens for Ctrl-C until it is told to forget it. */
export class Interrupt {
  readonly #controller = new AbortController();
  readonly #listener = (): void => this.#controller.abort();

  constructor() {
    process.once("SIGINT", this.#listener);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Waits for work that has no result when it is ended: then one sentence says so. */
  async during<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      this.forget();
      if (this.signal.aborted)
        throw new Interrupted("download", "interrupted; what was downloaded so far is kept", { cause: error });
      throw error;
    }
  }

  /** Leaves Ctrl-C to the process again. */
  forget(): void {
    process.off("SIGINT", this.#listener);
  }
}
