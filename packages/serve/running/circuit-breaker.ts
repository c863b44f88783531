/** Whether somebody who failed is asked again: not after failures in a row, then once after a rest, which grows as long as that fails too. */

/** closed: asked; half-open: one trial is under way; open: not asked. */
export type BreakerState = "closed" | "half-open" | "open";

/** How a breaker judges. */
interface BreakerOptions {
  /** Hears of every change, with why where something failed. */
  readonly changed?: (state: BreakerState, why?: unknown) => void;
  /** Milliseconds. */
  readonly now?: () => number;
}

const mostFailures = 3;
const firstRest = 1000;
const longestRest = 30_000;

/** A breaker. Whoever is admitted says how it went. */
export class CircuitBreaker {
  readonly #changed: (state: BreakerState, why?: unknown) => void;
  readonly #now: () => number;
  #state: BreakerState = "closed";
  #failures = 0;
  /** Why the first one in a row failed: what comes after it often follows from it. */
  #why: unknown;
  #rest = firstRest;
  #until = 0;

  constructor({ changed = () => {}, now = () => performance.now() }: BreakerOptions = {}) {
    this.#changed = changed;
    this.#now = now;
  }

  get state(): BreakerState {
    return this.#state;
  }

  /** True where asking would be admitted now. */
  get wouldAdmit(): boolean {
    return this.#state === "closed" || (this.#state === "open" && this.#now() >= this.#until);
  }

  /** True where it may be asked; after a rest, for the first one who wants to. */
  admit(): boolean {
    if (!this.wouldAdmit) return false;
    if (this.#state === "open") {
      this.#failures = 0;
      this.#turn("half-open");
    }
    return true;
  }

  succeeded(): void {
    this.#failures = 0;
    // What began before it opened is no trial.
    if (this.#state !== "half-open") return;
    this.#rest = firstRest;
    this.#turn("closed");
  }

  failed(why: unknown): void {
    if (this.#failures++ === 0) this.#why = why;
    if (this.#state === "open" || (this.#state === "closed" && this.#failures < mostFailures)) return;
    this.#until = this.#now() + this.#rest;
    this.#rest = Math.min(longestRest, this.#rest * 2);
    this.#turn("open", this.#why);
  }

  #turn(state: BreakerState, why?: unknown): void {
    this.#state = state;
    this.#changed(state, why);
  }
}
