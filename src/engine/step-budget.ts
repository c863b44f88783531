/**
 * Tokens that a run on pages reads: all that keeps a device busy while no text comes, and while some do, which wait for the run, as many as are read in
 * a while that nobody minds. How long that is for how many is learnt from the runs before: it depends on the device, the model and the context.
 */
import { budget } from "./tuning.js";

/** What one run reads at most. */
export class StepBudget {
  /** While no text comes. */
  readonly alone: number;
  readonly #usual: number;
  /** While some do, from the largest on; one where it is given. */
  readonly #levels: readonly number[];
  /** Milliseconds a token of the runs that read prompts lately. */
  #pace: number | undefined;

  /** `beside`: where nothing is known yet; `learns`: false where it stays; `least`: what a run must be able to read. */
  constructor(beside: number, alone: number, { learns, least }: { readonly learns: boolean; readonly least: number }) {
    this.alone = alone;
    const levels = learns ? [alone, beside, beside / 2, beside / 4].map(Math.floor) : [beside];
    this.#levels = levels.filter((tokens) => tokens === beside || tokens >= least);
    this.#usual = beside;
  }

  /** While texts come. */
  get beside(): number {
    const pace = this.#pace;
    if (pace === undefined || this.#levels.length === 1) return this.#usual;
    return this.#levels.find((tokens) => tokens * pace <= budget.besideMilliseconds) ?? this.#levels.at(-1)!;
  }

  /** A run that read so many tokens, most of them of prompts, took so long. */
  took(tokens: number, milliseconds: number): void {
    // What few tokens take says little about many.
    if (tokens < this.#levels.at(-1)! / 2) return;
    const pace = milliseconds / tokens;
    this.#pace = this.#pace === undefined ? pace : (this.#pace + pace) / 2;
  }
}
