/**
 * When the runs of one engine compute: one after the other, in the order in which they were asked, and each lets others have the thread
 * between two of its steps once it has held it for long. Knows no run.
 */

/** Milliseconds that a run holds the thread before timers, answers and frames may have it. */
const longestHold = 10;

/** The turns of one engine. */
export class Turns {
  readonly #breathe: () => Promise<void>;
  readonly #waiting: (() => void)[] = [];
  readonly #afterwards: (() => void)[] = [];
  #taken = false;
  #since = 0;
  /** What took so little the last time that the clock need not be asked between its steps. */
  readonly #short = new WeakSet<object>();
  #began = 0;

  /** `breathe` resolves once the thread has been back at its event loop. */
  constructor(breathe: () => Promise<void>) {
    this.#breathe = breathe;
  }

  /** Begins a turn; false, with nothing done, while another run has it: `wait` for it then. */
  take(): boolean {
    if (this.#taken) return false;
    this.#taken = true;
    this.#begin();
    return true;
  }

  /** Resolves when it is this run's turn, which has begun then. */
  async wait(): Promise<void> {
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#begin();
  }

  #begin(): void {
    this.#began = this.#since = performance.now();
  }

  /** True for work that was over quickly the last time. */
  wasShort(work: object): boolean {
    return this.#short.has(work);
  }

  /** The turn has done this work. */
  did(work: object): void {
    if (performance.now() - this.#began < longestHold / 2) this.#short.add(work);
    else this.#short.delete(work);
  }

  /** True once the turn has held the thread for long. */
  get isLong(): boolean {
    return performance.now() - this.#since > longestHold;
  }

  /** Lets others have the thread; the turn goes on when this resolves. */
  async pause(): Promise<void> {
    await this.#breathe();
    this.#since = performance.now();
  }

  /** Ends a turn. */
  end(): void {
    const next = this.#waiting.shift();
    if (next !== undefined) return next();
    this.#taken = false;
    for (const act of this.#afterwards.splice(0)) act();
  }

  /** Does something once no run is under way or waits: at once where there is none. */
  afterwards(act: () => void): void {
    if (this.#taken) this.#afterwards.push(act);
    else act();
  }
}
