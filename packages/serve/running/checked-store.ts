/**
 * A store that may be gone, slow, full or wrong, as those see it who need none: asked within a deadline and not while it fails, its answers
 * checked, everything counted. Nothing here rejects.
 */
import { checkCount } from "#insitu/base/arguments.js";
import type { PageStore } from "#insitu/base/page-store.js";
import type { NamedBlock } from "./block-names.js";
import { BlockSeal } from "./block-seal.js";
import type { StoreFigures } from "../engine.js";
import { type BreakerState, CircuitBreaker } from "./circuit-breaker.js";

/** How a store is asked. */
export interface CheckedStoreOptions {
  /** Values have an HMAC with it, and others are refused. */
  readonly secret?: Uint8Array;
  /** How long the store may take to answer: 2000 where left out. */
  readonly deadlineMilliseconds?: number;
  /** Hears in a line when the store is given up for a while, and when it is back. */
  readonly tell?: (line: string) => void;
}

/** Turns of the event loop that a deadline has at least. */
const deadlineTurns = 10;

type Counts = { -readonly [Name in Exclude<keyof StoreFigures, "reading" | "writing" | "leastTokens">]: number };

/** A store behind checks. */
export class CheckedStore {
  readonly #store: PageStore;
  readonly #blockBytes: number;
  readonly #seal: BlockSeal;
  readonly #deadline: number;
  // A full store can be read.
  readonly #reading: CircuitBreaker;
  readonly #writing: CircuitBreaker;
  readonly #counts: Counts = { hits: 0, misses: 0, refused: 0, errors: 0, saved: 0, dropped: 0 };
  #whenBack: () => void = () => {};
  #whenAnswered: () => void = () => {};

  constructor(
    store: PageStore,
    blockBytes: number,
    { secret, deadlineMilliseconds = 2000, tell }: CheckedStoreOptions,
  ) {
    checkCount("the deadline of a store in milliseconds", deadlineMilliseconds, 1);
    this.#store = store;
    this.#blockBytes = blockBytes;
    this.#seal = new BlockSeal(secret);
    this.#deadline = deadlineMilliseconds;
    const breaker = (what: string, opened: () => void): CircuitBreaker =>
      new CircuitBreaker({
        changed: (state: BreakerState, why: unknown) => {
          if (state === "open") opened();
          if (state === "closed") this.#whenBack();
          if (state !== "half-open")
            tell?.(
              state === "open" ? `the store is not ${what} for a while: ${String(why)}` : `the store is ${what} again`,
            );
        },
      });
    // What was asked and what is answered may be one off for good.
    this.#reading = breaker("read", () => store.renew?.());
    this.#writing = breaker("written", () => {});
  }

  /** Has `listener` called when the store answers again: it may have lost everything. */
  onBack(listener: () => void): void {
    this.#whenBack = listener;
  }

  /** Has `listener` called whenever the store has answered as it should. */
  onAnswer(listener: () => void): void {
    this.#whenAnswered = listener;
  }

  /** True where it makes sense to ask for blocks now. */
  get isReadable(): boolean {
    return this.#reading.wouldAdmit;
  }

  get figures(): Omit<StoreFigures, "leastTokens"> {
    return { ...this.#counts, reading: this.#reading.state, writing: this.#writing.state };
  }

  /** The bytes of the first of these blocks, as far as the store has them whole, without a gap. */
  async load(blocks: readonly NamedBlock[]): Promise<readonly Uint8Array[]> {
    const names = blocks.map(({ name }) => name);
    const found = await this.#ask(this.#reading, async (signal) => {
      const mostBytes = Math.max(0, ...blocks.map((block) => this.#seal.sizeOf(block, this.#blockBytes)));
      const values = await this.#store.load(names, signal, mostBytes);
      const there: Promise<Uint8Array | undefined>[] = [];
      for (const [at, block] of blocks.entries()) {
        const value: unknown = values[at];
        if (!(value instanceof Uint8Array)) break;
        there.push(this.#seal.open(block, value, this.#blockBytes));
      }
      return Promise.all(there);
    });
    if (found === undefined) return [];
    const wrong = found.findIndex((bytes) => bytes === undefined);
    const refused = found.filter((bytes) => bytes === undefined).length;
    const contents = found.slice(0, wrong < 0 ? found.length : wrong).filter((bytes) => bytes !== undefined);
    this.#counts.hits += contents.length;
    this.#counts.misses += blocks.length - found.length;
    this.#counts.refused += refused;
    if (refused > 0) this.#reading.failed(`${refused} of its ${found.length} values were refused`);
    else {
      this.#reading.succeeded();
      this.#whenAnswered();
    }
    return contents;
  }

  /** Keeps blocks; false where that failed. */
  async save(blocks: readonly NamedBlock[], contents: readonly Uint8Array[]): Promise<boolean> {
    const isSaved = await this.#ask(this.#writing, async (signal) => {
      const values = await Promise.all(blocks.map((block, at) => this.#seal.seal(block, contents[at])));
      await this.#store.save(new Map(values.map((value, at) => [blocks[at].name, value])), signal);
      return true;
    });
    if (isSaved === undefined) this.drop(blocks.length);
    else {
      this.#writing.succeeded();
      this.#counts.saved += blocks.length;
      this.#whenAnswered();
    }
    return isSaved === true;
  }

  /** What was loaded could not be used. */
  failed(error: unknown): void {
    this.#counts.errors++;
    this.#reading.failed(error);
  }

  /** Counts blocks that are not kept. */
  drop(blocks: number): void {
    this.#counts.dropped += blocks;
  }

  close(): Promise<void> {
    return this.#store.close().catch(() => {});
  }

  /** What the store answers within the deadline; undefined where it is not asked, fails or takes longer. Who gets an answer judges it. */
  async #ask<T>(breaker: CircuitBreaker, ask: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    if (!breaker.admit()) return undefined;
    const deadline = new AbortController();
    let timer: ReturnType<typeof setInterval> | undefined;
    let turns = 0;
    const late = new Promise<never>((_, reject) => {
      // An answer that came while a run held the thread is not late: the time counts in turns, between which answers are read.
      timer = setInterval(() => {
        if (++turns < deadlineTurns) return;
        const error = new Error(`it did not answer within ${this.#deadline} ms`);
        // Others who use what is given up then fail after this one.
        reject(error);
        deadline.abort(error);
      }, this.#deadline / deadlineTurns);
    });
    try {
      return await Promise.race([ask(deadline.signal), late]);
    } catch (error) {
      this.#counts.errors++;
      breaker.failed(error);
      return undefined;
    } finally {
      clearInterval(timer);
    }
  }
}
