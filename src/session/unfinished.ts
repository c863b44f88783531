/** What was asked of a session and is not over: a release waits for it. Knows no run. */
export class Unfinished {
  #count = 0;
  readonly #waiting: (() => void)[] = [];

  /** Something begins; `end` is to be called once for it. */
  readonly begin = (): void => void this.#count++;

  readonly end = (): void => {
    this.#count--;
    if (this.#count === 0) for (const go of this.#waiting.splice(0)) go();
  };

  /** Resolves when nothing is under way. */
  async over(): Promise<void> {
    if (this.#count > 0) await new Promise<void>((go) => this.#waiting.push(go));
  }
}
