/** The refusal of an engine with as many texts waiting as it takes, and when to ask again. Tells nobody how many others' wait. */
import { InsituError } from "#insitu/base/error.js";

/** As many texts wait as may, and as many of one tenant as its share is. */
export class QueueFullError extends InsituError {
  /** When it is worth asking again. */
  readonly retryAfterSeconds: number;

  /** `waiting`: those of the tenant. */
  constructor(waiting: number, retryAfterSeconds: number) {
    super(
      "queue-full",
      `the queue is full, and this key has its share of it, with ${waiting} completions waiting: try again in ${retryAfterSeconds} s`,
    );
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** The share of the latest interval in the mean. */
const share = 0.2;

/** The longest wait that is told. */
const mostSeconds = 60;

/** Guesses how long a line takes by how fast texts have been finished. */
export class RetryHint {
  #last: number | undefined;
  /** Milliseconds from one finished text to the next. */
  #interval = 1000;

  /** A text was finished. */
  finished(): void {
    const now = performance.now();
    if (this.#last !== undefined) this.#interval += share * (now - this.#last - this.#interval);
    this.#last = now;
  }

  /** Seconds until half of those that wait had their turn. */
  seconds(waiting: number): number {
    return Math.min(mostSeconds, Math.max(1, Math.ceil((this.#interval * waiting) / 2000)));
  }
}
