/** Turns for work on requests that takes the thread: one piece of one request, then whatever else waits, then the next one's. */
import { pause } from "#insitu/engine/pause.js";

/** Milliseconds after which work lets others have their turn. */
const pieceMilliseconds = 8;

/** Hands out turns in the order in which they are asked for. */
export class WorkTurns {
  readonly #waiting: (() => void)[] = [];
  #isHanding = false;

  /** Resolves when it is the caller's turn: until it waits for something else. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (!this.#isHanding) void this.#hand();
    });
  }

  /** Does work that comes in steps, some of them a turn. */
  async through<T>(steps: Iterator<void, T>): Promise<T> {
    for (;;) {
      await this.next();
      const until = performance.now() + pieceMilliseconds;
      do {
        const { done, value } = steps.next();
        if (done === true) return value;
      } while (performance.now() < until);
    }
  }

  async #hand(): Promise<void> {
    this.#isHanding = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      next();
      await pause();
    }
    this.#isHanding = false;
  }
}
