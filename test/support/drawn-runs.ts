// Runs of a decoder that draw their own tokens, begun by hand.
import type { Decoder } from "../../src/decoder/decoder.js";
import type { DrawingOptions, TokenDrawer } from "../../src/decoder/token-drawer.js";
import type { State } from "../../src/session/state.js";

/** How the tokens of several texts are drawn. */
interface Drawing extends DrawingOptions {
  readonly seeds: readonly number[];
  readonly seen: readonly (readonly number[])[];
}

/** Draws the tokens of texts in one state. */
export class DrawnRuns {
  readonly #drawer: TokenDrawer;
  readonly #drawing: Drawing;

  constructor(decoder: Decoder, drawing: Drawing) {
    this.#drawer = decoder.drawer();
    this.#drawing = drawing;
  }

  /** Begins a run that reads tokens, or those that were drawn last where left out, and draws number `counter` of each text. */
  async draw(
    state: State,
    tokens: readonly (readonly number[])[] | undefined,
    positions: readonly number[],
    counter: number,
  ): Promise<{ readonly tokens: Promise<readonly number[]> }> {
    const { runs } = await this.#begin(state, tokens, positions, counter, 1);
    const first = runs.then(([run]) => run);
    first.catch(() => undefined);
    return { tokens: first };
  }

  /** Begins `count` runs, the first of which reads what was drawn last. */
  drawSeries(
    state: State,
    positions: readonly number[],
    counter: number,
    count: number,
  ): Promise<{ readonly runs: Promise<readonly (readonly number[])[]> }> {
    return this.#begin(state, undefined, positions, counter, count);
  }

  async #begin(
    state: State,
    tokens: readonly (readonly number[])[] | undefined,
    positions: readonly number[],
    counter: number,
    count: number,
  ): Promise<{ readonly runs: Promise<readonly (readonly number[])[]> }> {
    const { seeds, seen, ...options } = this.#drawing;
    const step = (by: number) => ({
      tokens: tokens ?? positions.map(() => [0]),
      positions: positions.map((position) => position + by),
      keep: 1,
    });
    const drawings = seeds.map((seed, text) => ({ options, seed, counter, seen: seen[text] }));
    const ask = { drawings, ...(tokens === undefined ? { from: seeds.map((_, text) => text) } : {}) };
    const later = Array.from({ length: count - 1 }, (_, at) => step(at + 1));
    const { results } = await this.#drawer.begin(state, step(0), ask, later);
    const runs = results.then((all) => all.map((run) => run.tokens));
    runs.catch(() => undefined);
    return { runs };
  }
}
