/** A lane: steps that follow each other on the same caches. How many of them are under way, and how fast their tokens come. */
import type { EngineText } from "./text.js";
import { flight } from "./tuning.js";

/** The steps on one set of caches. */
export class Lane {
  /** Steps that were begun and have not landed. */
  underWay = 0;
  /** The row that each text's token was drawn behind in the step that was begun last. */
  drawn: ReadonlyMap<EngineText, number> = new Map();
  /** When tokens came last. */
  #at: number | undefined;
  /** Steps that landed, and the milliseconds that they took: of those long ago less and less. */
  #steps = 0;
  #took = 0;

  /** So many steps have landed at once that were begun together; the milliseconds that they took. */
  landed(count: number, since: number): number {
    this.underWay--;
    const now = performance.now();
    const began = Math.max(this.#at ?? since, since);
    if (this.#at !== undefined) {
      this.#steps = flight.paceMemory * this.#steps + count;
      this.#took = flight.paceMemory * this.#took + (now - this.#at);
    }
    this.#at = this.underWay === 0 ? undefined : now;
    return now - began;
  }

  /** Steps that make up a series, as fast as they come: one while that is not known. */
  get series(): number {
    const pace = this.#steps === 0 ? Infinity : this.#took / this.#steps;
    return Math.max(1, Math.floor(Math.min(flight.seriesMilliseconds / pace, flight.mostSeries)));
  }
}
