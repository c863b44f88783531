/**
 * What one decoder has read: a state and the tokens whose keys and values are in it. Extends, goes back, forks, and when the caches are
 * full slides on. One sample; for several see batch.ts.
 */
import { InsituError } from "../base/error.js";
import type { Logits } from "../cache/logits.js";
import type { DecoderState, StatefulDecoder, StatefulDrawer } from "./decoder.js";
import { nextPart, type PromptReading } from "./prompt-parts.js";

/** How a context is shaped. */
export interface ContextOptions extends PromptReading {
  /** Tokens that the caches hold. */
  readonly capacity: number;
  /** Tokens at the beginning that stay when the context slides: models lean on them whatever they say. */
  readonly sinks: number;
}

/** Steps between two renewals of the sinks: how much further away they may seem than they are kept. */
const sinkRenewal = 32;

/** The bytes that runs wrote and that a runtime which copies its caches would have moved. */
export interface ContextBytes {
  readonly state: number;
  readonly written: number;
  readonly moved: number;
  readonly copying: number;
}

/** Tokens of a text that are being drawn. */
export interface DrawnTokens {
  /** In their order, once they have come to the host: `checkToken` tells which are none. Rejects where a run failed. */
  readonly tokens: Promise<readonly number[]>;
}

/** A conversation with a decoder. */
export class Context {
  readonly #decoder: StatefulDecoder;
  readonly #state: DecoderState;
  readonly #options: ContextOptions;
  /** The tokens in the caches; once slid, the sinks and the recent ones only where they are needed to start again. */
  #tokens: number[];
  /** Tokens that runs read which the host does not know yet: they come after those that it knows. */
  #ahead = 0;
  /** Tokens that were written over the oldest ones. */
  #slid = 0;
  #position: number;
  #writtenRows = 0;
  #copying = 0;

  constructor(
    decoder: StatefulDecoder,
    options: ContextOptions,
    from?: { readonly state: DecoderState; readonly tokens: readonly number[] },
  ) {
    this.#decoder = decoder;
    this.#options = { ...options, sinks: Math.min(options.sinks, Math.floor(options.capacity / 4)) };
    this.#state = from?.state ?? decoder.createState(1, options.capacity);
    this.#tokens = [...(from?.tokens ?? [])];
    this.#position = this.#tokens.length;
  }

  /** The tokens in the caches, oldest first; meaningless once slid. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }

  get capacity(): number {
    return this.#options.capacity;
  }

  /** Tokens that still fit without sliding. */
  get room(): number {
    return this.#slid > 0 ? 0 : this.#options.capacity - this.#tokens.length - this.#ahead;
  }

  get slid(): boolean {
    return this.#slid > 0;
  }

  /** The caches, for saving. */
  get state(): DecoderState {
    return this.#state;
  }

  get bytes(): ContextBytes {
    const state = this.#state.byteLength;
    const written = Math.round((state / this.#options.capacity) * this.#writtenRows);
    return {
      state: this.#state.heldBytes ?? state,
      written,
      moved: this.#state.statistics.movedBytes,
      copying: this.#copying,
    };
  }

  /** Reads tokens in chunks, sliding past the capacity; `check` is asked before each run. The logits of the last run. */
  async extend(given: readonly number[], check?: () => Promise<void>): Promise<Logits> {
    let logits: Logits | undefined;
    const tokens = this.#turnsLong(given.length) ? this.#fromTheFirst(given) : given;
    const start = this.#tokens.length;
    for (let at = 0; at < tokens.length;) {
      await check?.();
      if (this.room === 0) logits = await this.#slide(tokens[at++]);
      else {
        const { part, fresh } = this.#nextPart(tokens.slice(at, at + this.room), start);
        logits = await this.#append(part, 1);
        at += fresh;
      }
    }
    if (logits === undefined) throw new InsituError("internal", "a context was extended by nothing");
    return logits;
  }

  /** Tokens that may be read and forgotten again: a text that has become a long one does not become short, and some states do not go back. */
  get guessRoom(): number {
    if (this.#state.goesBack === false) return 0;
    const short = (this.#options.longFrom ?? Infinity) - this.#tokens.length;
    return short < 0 ? this.room : Math.min(this.room, short);
  }

  /** True if so many tokens more make a long text of a short one. */
  #turnsLong(more: number): boolean {
    const { longFrom = Infinity } = this.#options;
    const length = this.#tokens.length;
    return !this.slid && length <= longFrom && length + more > longFrom;
  }

  /** The tokens with all that came before them, which is forgotten here. */
  #fromTheFirst(tokens: readonly number[]): readonly number[] {
    const all = [...this.#tokens, ...tokens];
    if (!this.rewind(0))
      throw new InsituError(
        "invalid-state",
        "the text has become a long one, and the model's state cannot go back to read it as one",
      );
    return all;
  }

  /** Reads tokens in one run, which must have room for them; the logits after each. */
  tryOut(tokens: readonly number[]): Promise<Logits> {
    return this.#append(tokens, tokens.length);
  }

  /** Reads tokens in chunks, which must have room; `check` is asked before each run. Draws number `counter` of a text's tokens where the model runs. */
  async drawFirst(
    drawer: StatefulDrawer,
    tokens: readonly number[],
    counter: number,
    check: () => Promise<void>,
  ): Promise<DrawnTokens> {
    const start = this.#tokens.length;
    let before: Promise<void> | undefined;
    for (let at = 0; ;) {
      await check();
      const { part, fresh } = this.#nextPart(tokens.slice(at), start);
      at += fresh;
      this.#count(part.length);
      if (at === tokens.length)
        return this.#took(part, await drawer.draw(this.#state, [part], [this.#position], counter));
      const { over } = this.#took(part, await drawer.read(this.#state, [part], [this.#position]));
      // One chunk is on its way while the one before is read: who gives up does not leave a whole prompt to the device.
      await before;
      before = over;
    }
  }

  /** Notes that tokens were read. */
  #took<T>(part: readonly number[], result: T): T {
    this.#tokens.push(...part);
    this.#position += part.length;
    return result;
  }

  /** The tokens of the next run, and how many of those that are left are among them: some in front of these are forgotten here and read again. */
  #nextPart(left: readonly number[], start: number): { readonly part: readonly number[]; readonly fresh: number } {
    // The first run of a long text makes it one: it is longer than any short one.
    const { longFrom = Infinity, chunk } = this.#options;
    if (this.#turnsLong(left.length)) {
      const part = left.slice(0, Math.max(longFrom + 1, chunk));
      return { part, fresh: part.length };
    }
    // Rows on pages may be others' too: what was there at the start stays.
    const before = this.#tokens.length - (this.#state.sharedRows === undefined ? 0 : start);
    const { count, again } = nextPart(left.length, before, this.#options);
    const kept = this.#tokens.length - again;
    const repeated = this.#tokens.slice(kept);
    if (this.rewind(kept)) return { part: [...repeated, ...left.slice(0, count - again)], fresh: count - again };
    // A state that cannot go back reads on from where it is.
    const { count: fresh } = nextPart(left.length, 0, this.#options);
    return { part: left.slice(0, fresh), fresh };
  }

  /**
   * Reads the token that was drawn last, whatever it is, and draws number `counter`, and so on until `count` are drawn: there must be room, and what
   * draws must know of series where there are several.
   */
  async drawNext(drawer: StatefulDrawer, counter: number, count = 1): Promise<DrawnTokens> {
    const positions = [this.#position];
    const tokens =
      count === 1 || drawer.drawSeries === undefined
        ? (await drawer.draw(this.#state, undefined, positions, counter)).tokens
        : (await drawer.drawSeries(this.#state, positions, counter, count)).runs.then((runs) => runs.flat());
    // Whoever takes them hears of a run that failed; nobody has to.
    tokens.catch(() => undefined);
    for (let at = 0; at < count; at++) {
      this.#count(1);
      this.#ahead++;
    }
    this.#position += count;
    return { tokens };
  }

  /** Learns the first of the tokens that were read ahead. */
  learn(token: number): void {
    this.#tokens.push(token);
    this.#ahead--;
    this.#state.learn?.([token]);
  }

  /** Goes back to the tokens that the host knows. A state that is lost stays so, and says it to whoever uses it next. */
  forgetAhead(): void {
    const ahead = this.#ahead;
    this.#ahead = 0;
    this.#position = this.#tokens.length;
    if (ahead === 0) return;
    try {
      this.#state.rewind(this.#tokens.length);
    } catch (error) {
      if (!(error instanceof InsituError) || (error.code !== "state-lost" && error.code !== "released")) throw error;
    }
  }

  /** What draws a text's tokens where the model runs; undefined where the host does. To be given back. */
  takeDrawer(...drawing: Parameters<NonNullable<StatefulDecoder["drawer"]>>): StatefulDrawer | undefined {
    // Tokens that are drawn ahead cannot be read anew where a text becomes a long one.
    return this.capacity > (this.#options.longFrom ?? Infinity) ? undefined : this.#decoder.drawer?.(...drawing);
  }

  giveDrawer(drawer: StatefulDrawer): void {
    this.#decoder.giveBack?.(drawer);
  }

  /** Forgets everything after the first `length` tokens. False where the caches cannot: then nothing changed. */
  rewind(length: number): boolean {
    if (length === this.#tokens.length && !this.slid) return true;
    if (this.slid && length > 0) return false;
    const { longFrom = Infinity } = this.#options;
    if (length > 0 && length <= longFrom && this.#tokens.length > longFrom) return false;
    try {
      this.#state.rewind(length);
    } catch (error) {
      if (error instanceof InsituError && error.code === "invalid-argument") return false;
      throw error;
    }
    this.#tokens.length = length;
    this.#position = length;
    this.#slid = 0;
    return true;
  }

  /** Takes over what other contexts have read of a text that goes on from this one's; how many of its tokens are read then. */
  share(tokens: readonly number[]): number {
    const length = this.slid ? 0 : (this.#state.share?.(tokens) ?? 0);
    if (length > this.#tokens.length) {
      this.#tokens = tokens.slice(0, length);
      this.#position = length;
    }
    return this.#tokens.length;
  }

  /** A second context with the same contents; bytes are copied when one of the two is extended. */
  fork(): Context {
    if (this.slid) throw new InsituError("invalid-state", "a context that has slid cannot be forked");
    return new Context(this.#decoder, this.#options, { state: this.#state.fork(), tokens: this.#tokens });
  }

  /** Gives the caches back. */
  release(): void {
    this.#state.release();
  }

  async #append(part: readonly number[], keep: number): Promise<Logits> {
    this.#count(part.length);
    return this.#took(
      part,
      await this.#decoder.run(this.#state, { tokens: [part], positions: [this.#position], keep }),
    );
  }

  /** Reads one token when all rows are taken: over the oldest row that is no sink, or by reading the recent half again. */
  async #slide(token: number): Promise<Logits> {
    const { capacity, sinks } = this.#options;
    if (!this.#decoder.overwrites) {
      const kept = [...this.#tokens.slice(0, sinks), ...this.#tokens.slice(-Math.ceil((capacity - sinks) / 2))];
      if (!this.rewind(0))
        throw new InsituError(
          "invalid-state",
          'the model keeps a state that cannot go back: it cannot slide; choose whenFull: "stop"',
        );
      return this.extend([...kept, token]);
    }
    if (this.#slid % sinkRenewal === 0 && sinks > 0) await this.#renewSinks();
    const row = sinks + (this.#slid % (capacity - sinks));
    this.#count(1);
    const logits = await this.#decoder.run(this.#state, {
      tokens: [[token]],
      positions: [this.#position],
      rows: { start: [row], valid: [capacity] },
    });
    this.#slid++;
    this.#position++;
    return logits;
  }

  /**
   * Reads the sinks again at positions just before the oldest token that is kept. They see only each other, so that their keys come out
   * as before, turned to the new positions: to the model they never get further away than the context is long.
   */
  async #renewSinks(): Promise<void> {
    const { capacity, sinks } = this.#options;
    this.#count(sinks);
    await this.#decoder.run(this.#state, {
      tokens: [this.#tokens.slice(0, sinks)],
      positions: [this.#position - capacity + 1],
      rows: { start: [0], valid: [sinks] },
      keep: 1,
    });
  }

  #count(rows: number): void {
    const { capacity } = this.#options;
    const perRow = this.#state.byteLength / capacity;
    this.#writtenRows += rows;
    // Caches in their full capacity are copied whole, growing ones as far as they reach.
    this.#copying += this.#decoder.ragged
      ? this.#state.byteLength
      : Math.round(perRow * (this.#tokens.length + this.#ahead + rows));
  }
}
