/** A mutex for asynchronous work: each piece begins when everything that was asked for before it is over, whether it went well or not. */
export class Mutex {
  #last: Promise<void> = Promise.resolve();

  /** Resolves when it is the caller's turn; what it resolves to ends the turn. */
  async enter(): Promise<() => void> {
    const before = this.#last;
    let leave = (): void => {};
    this.#last = new Promise((resolve) => (leave = resolve));
    await before;
    return leave;
  }

  async take<T>(work: () => T | Promise<T>): Promise<T> {
    const leave = await this.enter();
    try {
      return await work();
    } finally {
      leave();
    }
  }
}
