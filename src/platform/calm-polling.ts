/**
 * Waiting in Node for a GPU. The package `webgpu` looks whether something is done in every turn of the event loop, and each look leaves a function with a
 * finalizer behind: a hundred thousand of them stop the process for a fifth of a second when they are collected. Turns in which nothing happened are
 * drawn out here, the longer the longer nothing has. Turns with work in them are left as they are.
 */

/** Milliseconds of a turn in which nothing happened, at most. A look takes 10 to 20 µs. */
const emptyTurn = 0.1;

/** Which part of the time that nothing has happened for the next turn may take: what comes meanwhile is that much later at most. */
const shareOfWait = 0.15;

/** Milliseconds that a turn is drawn out at least, since less cannot be slept, and at most, since the process hears nothing meanwhile. H200. */
const [leastNap, mostNap] = [0.05, 0.5];

/** Draws out the empty turns of an event loop while something is waited for. */
class CalmPolling {
  /** What is slept on: nothing where a process has no shared memory, whose turns are then left as they are. */
  readonly #cell = typeof SharedArrayBuffer === "undefined" ? undefined : new Int32Array(new SharedArrayBuffer(4));
  #waiting = 0;
  #isTurning = false;
  /** When the last turn ended, and since when turns have been empty. */
  #last = 0;
  #emptySince = 0;

  /** The same promise, looked for calmly. */
  async await<T>(coming: Promise<T>): Promise<T> {
    this.#waiting++;
    this.#start();
    try {
      return await coming;
    } finally {
      this.#waiting--;
    }
  }

  #start(): void {
    if (this.#isTurning) return;
    this.#isTurning = true;
    this.#last = this.#emptySince = performance.now();
    setImmediate(this.#turn);
  }

  readonly #turn = (): void => {
    if (this.#waiting === 0) {
      this.#isTurning = false;
      return;
    }
    const now = performance.now();
    if (now - this.#last > emptyTurn) this.#emptySince = now;
    const nap = Math.min(mostNap, (now - this.#emptySince) * shareOfWait);
    if (nap >= leastNap && this.#cell !== undefined) Atomics.wait(this.#cell, 0, 0, nap);
    this.#last = performance.now();
    setImmediate(this.#turn);
  };
}

const polling = new CalmPolling();

/** Waits for what is looked for in every turn of the event loop. */
export const awaitCalmly = <T>(coming: Promise<T>): Promise<T> => polling.await(coming);
