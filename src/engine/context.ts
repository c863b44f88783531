/**
 * What a model has read of one text: tokens, those that the host does not know yet, and the rows that hold them. Goes back, forks, takes over what
 * others have read, and when the caches are full slides on. Runs nothing.
 */
import { InsituError } from "../base/error.js";
import type { MarkReason, Rows } from "./rows.js";

/** How a context is shaped. */
export interface ContextOptions {
  /** Tokens that the caches hold. */
  readonly capacity: number;
  /** Tokens at the beginning that stay when the context slides: models lean on them whatever they say. */
  readonly sinks: number;
  /** True if new rows may be written over old ones. */
  readonly overwrites: boolean;
  /** Texts of more tokens than this are read with other rotary tables, from their first token on; left out where there is one kind of text. */
  readonly longFrom?: number | undefined;
  /** True if a runtime that copies moves whole caches: they have their full capacity from the beginning. */
  readonly isWhole: boolean;
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

/** What a step reads over old rows. */
export interface SlidingRead {
  readonly tokens: readonly number[];
  readonly position: number;
  readonly rows: { readonly start: number; readonly valid: number };
  /** True for the token itself; false for sinks that are read again before it. */
  readonly isToken: boolean;
}

/** A text in the caches. */
export class Context {
  readonly rows: Rows;
  readonly #options: ContextOptions;
  /** The tokens in the caches; once slid, the sinks and the recent ones only where they are needed to start again. */
  #tokens: number[];
  /** Tokens that were read which the host does not know yet: they come after those that it knows. */
  #ahead = 0;
  /** Tokens that were written over the oldest ones, and whether the sinks are due. */
  #slid = 0;
  #sinksAreRead = false;
  #position: number;
  #writtenRows = 0;
  #copying = 0;
  /** True if it is read as a long text where rows do not tell that. */
  #isLong: boolean;

  constructor(rows: Rows, options: ContextOptions, tokens: readonly number[] = []) {
    this.rows = rows;
    this.#options = { ...options, sinks: Math.min(options.sinks, Math.floor(options.capacity / 4)) };
    this.#tokens = [...tokens];
    this.#position = this.#tokens.length;
    this.#isLong = rows.tellsKinds && tokens.length > this.#longFrom;
  }

  get #longFrom(): number {
    return this.#options.longFrom ?? Infinity;
  }

  /** The tokens in the caches that are known, oldest first; meaningless once slid. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }

  /** Tokens in the caches. */
  get length(): number {
    return this.#tokens.length + this.#ahead;
  }

  /** Of them those that the host does not know yet. */
  get ahead(): number {
    return this.#ahead;
  }

  /** The position of the token that is read next. */
  get position(): number {
    return this.#position;
  }

  get capacity(): number {
    return this.#options.capacity;
  }

  /** Tokens that still fit without sliding. */
  get room(): number {
    return this.slid ? 0 : this.capacity - this.length;
  }

  /** Tokens that may be read and forgotten again: a text that has become a long one does not become short. */
  get guessRoom(): number {
    if (!this.rows.mayGuess) return 0;
    return this.isLong ? this.room : Math.min(this.room, this.#longFrom - this.length);
  }

  /** True if what is read is turned by the rotary tables for long texts. */
  get isLong(): boolean {
    return this.#isLong || this.length > this.#longFrom;
  }

  /** True if it is read as a long text and not far enough that its rows tell so. */
  get isPartOfLong(): boolean {
    return this.isLong && this.length <= this.#longFrom;
  }

  /** The tokens that are read together at least, where so many more make a long text of a short one; 0 where they do not. */
  longPart(more: number): number {
    return !this.slid && !this.isLong && this.length + more > this.#longFrom ? this.#longFrom + 1 : 0;
  }

  /** Has its text be read as a long one, from its first token on. It has no rows. */
  becomeLong(): void {
    this.rows.readAs("long");
    this.#isLong = true;
  }

  /** Says how many tokens are to be read: an empty context is of the kind that its text will be, where rows do not tell it. */
  expect(count: number): void {
    if (this.rows.tellsKinds && this.length === 0 && this.longPart(count) > 0) this.becomeLong();
  }

  /** True if a text that grows from so many tokens to so many is read alike all the way: tokens that are drawn ahead cannot be read anew. */
  isOneKind(from: number, to: number): boolean {
    return from > this.#longFrom || to <= this.#longFrom;
  }

  get slid(): boolean {
    return this.#slid > 0 || this.#sinksAreRead;
  }

  get bytes(): ContextBytes {
    const { byteLength, heldBytes, movedBytes } = this.rows;
    const written = Math.round((byteLength / this.capacity) * this.#writtenRows);
    return { state: heldBytes, written, moved: movedBytes, copying: this.#copying };
  }

  /** Notes that tokens are read, or so many that the host does not know. */
  read(tokens: readonly number[] | number): void {
    const count = typeof tokens === "number" ? tokens : tokens.length;
    this.#count(count);
    if (typeof tokens === "number") this.#ahead += count;
    else this.#tokens.push(...tokens);
    this.#position += count;
  }

  /** Learns the first of the tokens that were read ahead. */
  learn(token: number): void {
    if (this.#ahead === 0) return;
    this.#tokens.push(token);
    this.#ahead--;
    this.rows.learn([token]);
  }

  /** Notes that somebody may come back to what is read up to `length`: all where left out. */
  mark(why: MarkReason, length: number = this.length): void {
    if (!this.slid) this.rows.mark(length, why);
  }

  /** Goes back to the tokens that the host knows. A state that is lost stays so, and says it to whoever uses it next. */
  forgetAhead(): void {
    const ahead = this.#ahead;
    this.#ahead = 0;
    this.#position -= ahead;
    if (ahead === 0) return;
    try {
      this.#tokens.length = this.#position = this.rows.rewind(this.#tokens.length);
    } catch (error) {
      if (!(error instanceof InsituError) || (error.code !== "state-lost" && error.code !== "released")) throw error;
    }
  }

  /**
   * Forgets everything after the first `length` tokens, or after those of the last checkpoint before: see its length then. False where the caches
   * cannot: then nothing changed.
   */
  rewind(length: number): boolean {
    if (length === this.length && !this.slid && !this.isPartOfLong) return true;
    if (this.slid && length > 0) return false;
    if (length > 0 && length <= this.#longFrom && this.isLong) return false;
    let reached: number;
    try {
      reached = this.rows.rewind(length);
    } catch (error) {
      if (error instanceof InsituError && error.code === "invalid-argument") return false;
      throw error;
    }
    this.#tokens.length = Math.min(reached, this.#tokens.length);
    this.#ahead = 0;
    this.#position = reached;
    this.#slid = 0;
    this.#sinksAreRead = false;
    if (reached === 0 && this.#isLong) {
      this.rows.readAs("short");
      this.#isLong = false;
    }
    return true;
  }

  /** Takes over what other contexts have read of a text that goes on from this one's; how many of its tokens are read then. */
  share(tokens: readonly number[]): number {
    // Its last token is read in any case.
    this.expect(tokens.length + 1);
    const length = this.slid ? 0 : this.rows.share(tokens, this.length);
    if (length > this.length) {
      this.#tokens = tokens.slice(0, length);
      this.#position = length;
    }
    return this.length;
  }

  /** A second context with the same contents; bytes are copied when one of the two is extended. */
  fork(): Context {
    if (this.slid) throw new InsituError("invalid-state", "a context that has slid cannot be forked");
    const fork = new Context(this.rows.fork(), this.#options, this.#tokens);
    fork.#isLong = this.#isLong;
    return fork;
  }

  /** Gives the caches back. */
  release(): void {
    this.rows.release();
  }

  /**
   * How one token is read when all rows are taken: over the oldest row that is no sink. Every so often the sinks are read again before it, at positions
   * just before the oldest token that is kept. They see only each other, so that their keys come out as before, turned to the new positions: to the
   * model they never get further away than the context is long. Undefined where rows cannot be written over.
   */
  nextSlide(token: number): SlidingRead | undefined {
    const { capacity, sinks, overwrites } = this.#options;
    if (!overwrites) return undefined;
    if (this.#slid % sinkRenewal === 0 && sinks > 0 && !this.#sinksAreRead) {
      const position = this.#position - capacity + 1;
      return { tokens: this.#tokens.slice(0, sinks), position, rows: { start: 0, valid: sinks }, isToken: false };
    }
    const start = sinks + (this.#slid % (capacity - sinks));
    return { tokens: [token], position: this.#position, rows: { start, valid: capacity }, isToken: true };
  }

  /** Notes that such tokens are read. */
  slide({ tokens, isToken }: SlidingRead): void {
    this.#count(tokens.length);
    this.#sinksAreRead = !isToken;
    if (!isToken) return;
    this.#slid++;
    this.#position++;
  }

  /** Where rows cannot be written over: forgets all, and tells the tokens to start again with, the sinks and the recent half. */
  startAgain(): readonly number[] {
    const { capacity, sinks } = this.#options;
    const kept = [...this.#tokens.slice(0, sinks), ...this.#tokens.slice(-Math.ceil((capacity - sinks) / 2))];
    if (this.rewind(0)) return kept;
    throw new InsituError(
      "invalid-state",
      'the model keeps a state that cannot go back: it cannot slide; choose whenFull: "stop"',
    );
  }

  #count(rows: number): void {
    const { byteLength } = this.rows;
    this.#writtenRows += rows;
    // Caches in their full capacity are copied whole, growing ones as far as they reach.
    this.#copying += this.#options.isWhole
      ? byteLength
      : Math.round((byteLength / this.capacity) * (this.length + rows));
  }
}
