/**
 * Blocks of texts that outlive their pool: what a store has of a prompt is brought into the pool before the prompt's turn, and what a text
 * has read is kept there. Bytes move between runs only; the store is asked beside them.
 */
import { type NamedBlock, nameBlocks } from "./block-names.js";
import { readEachBlock } from "#insitu/cache/page-bytes.js";
import type { PagedState } from "#insitu/cache/paged-state.js";
import type { Sequence } from "#insitu/cache/sequence.js";
import type { StoreFigures } from "../engine.js";
import { measureBreakEven } from "./break-even.js";
import { CheckedStore } from "./checked-store.js";
import { pageFingerprint, type PrefixStore } from "./prefix-store.js";

/** A text whose blocks are kept. */
interface SavedText {
  readonly salt: string;
  readonly tokens: readonly number[];
}

/** Blocks of the pool that wait for what the store has. */
interface Reserved {
  readonly sequence: Sequence;
  /** The blocks at its beginning that the pool had. */
  readonly known: number;
  readonly text: SavedText;
}

/** A block of the pool that the store is to keep. */
interface KeptBlock {
  readonly block: NamedBlock;
  /** What stands for its contents in the pool. */
  readonly of: object | undefined;
}

/** Bytes that may be on their way to the store where nobody says. */
const usualPending = 2 ** 27;

/** Blocks that are written in one go. */
const mostWritten = 16;

/** Names that are noted as being in the store, and for how many milliseconds: what it let go of is written again some time. */
const mostNoted = 100_000;
const notedFor = 3_600_000;

/** Milliseconds after which what the store takes is measured again, in case that it or the way to it has changed; and where a measure failed. */
const measuredFor = 600_000;
const unmeasuredFor = 30_000;

/** Brings blocks from a store, and to it. */
export class SavedPrefixes {
  readonly #store: CheckedStore;
  readonly #fingerprint: string;
  readonly #pages: PagedState;
  readonly #prefixes: PrefixStore;
  #leastTokens: number;
  /** From when on what the store takes is measured by its next answer, and whether that is known: what it took before it was away says nothing. */
  #measureAt = -Infinity;
  #isMeasured = false;
  #isMeasuring = false;
  #isClosed = false;
  /** Names that the store has, or had, and when that was known. */
  readonly #noted = new Map<string, number>();
  /** Contents of the pool's blocks that the store was given, or gave, and when that was. */
  #given = new WeakMap<object, number>();
  /** The writes that are under way or wait, one after the other. */
  #writing: Promise<void> = Promise.resolve();
  #pendingBytes = 0;

  constructor(prefixes: PrefixStore, pages: PagedState) {
    this.#store = new CheckedStore(prefixes.store, pages.blockBytes, prefixes);
    this.#store.onBack(() => {
      this.#forget();
      this.#isMeasured = false;
      this.#measureAt = -Infinity;
    });
    this.#store.onAnswer(() => this.#measure());
    this.#fingerprint = pageFingerprint(prefixes.fingerprint, pages);
    this.#prefixes = prefixes;
    this.#pages = pages;
    this.#leastTokens = prefixes.leastTokens ?? 64;
    this.#isMeasured = prefixes.leastTokens !== undefined;
    if (this.#isMeasured) this.#measureAt = performance.now() + measuredFor;
  }

  get figures(): StoreFigures {
    return { ...this.#store.figures, leastTokens: this.#leastTokens };
  }

  /**
   * Reserves blocks for what the store may have of a text beyond what the pool has, and leaves `spare` to others; undefined where there is
   * too little to win. Between runs.
   */
  reserve(text: SavedText, spare: number): Reserved | undefined {
    const { pool } = this.#pages;
    const { blockSize } = pool;
    // The last token must be read: its logits are wanted.
    const full = Math.floor((text.tokens.length - 1) / blockSize);
    if (full * blockSize < this.#leastTokens || !this.#store.isReadable) return undefined;
    const sequence = pool.add(undefined, text.salt);
    const known = sequence.share(text.tokens.slice(0, full * blockSize)) / blockSize;
    const count = Math.min(full - known, pool.room / blockSize - spare);
    if (count < 1 || count * blockSize < this.#leastTokens) {
      sequence.release();
      return undefined;
    }
    sequence.append(text.tokens.slice(known * blockSize, (known + count) * blockSize));
    return { sequence, known, text };
  }

  /** What the store has for reserved blocks; never rejects: a store that fails has nothing. */
  async fetch({ sequence, known, text }: Reserved): Promise<readonly Uint8Array[]> {
    const wanted = this.#named(text.salt, text.tokens.slice(0, sequence.length)).slice(known);
    const contents = await this.#store.load(wanted);
    // What was not there the store let go of, or never had whole.
    wanted.forEach(({ name }, at) => (at < contents.length ? this.#note(name) : this.#noted.delete(name)));
    return contents;
  }

  /**
   * Brings what was fetched into the reserved blocks, which texts of the salt may share from then on. Between runs. Never throws: what cannot be
   * brought is computed.
   */
  bring({ sequence, known }: Reserved, contents: readonly Uint8Array[]): void {
    try {
      const { state, pool } = this.#pages;
      sequence.truncate((known + contents.length) * pool.blockSize);
      contents.forEach((bytes, at) => state.writeParts([sequence.table[known + at]], bytes));
      sequence.commit();
      contents.forEach((_, at) => {
        const brought = sequence.contentsOf(known + at);
        if (brought !== undefined) this.#given.set(brought, performance.now());
      });
    } catch (error) {
      this.#store.failed(error);
    } finally {
      sequence.release();
    }
  }

  /** Keeps the full blocks that a text has read, those that the store was not given before. Between runs, before they are given back. */
  keep({ salt, tokens }: SavedText, sequence: Sequence): void {
    const { blockBytes, pool } = this.#pages;
    const full = Math.floor(Math.min(sequence.length, sequence.tokens.length) / pool.blockSize);
    const columns = Array.from({ length: full }, (_, column) => column).filter(
      (column) => !this.#isRecent(this.#given.get(sequence.contentsOf(column) ?? sequence)),
    );
    if (columns.length === 0) return;
    const bytes = columns.length * blockBytes;
    if (this.#pendingBytes + bytes > (this.#prefixes.pendingBytes ?? usualPending))
      return this.#store.drop(columns.length);
    const named = this.#named(salt, tokens.slice(0, full * pool.blockSize));
    const kept = columns.map((column) => ({ block: named[column], of: sequence.contentsOf(column) }));
    for (const { of } of kept) if (of !== undefined) this.#given.set(of, performance.now());
    this.#pendingBytes += bytes;
    const contents = readEachBlock(
      this.#pages,
      columns.map((column) => sequence.table[column]),
    );
    this.#writing = this.#writing
      .then(async () => this.#save(kept, await contents))
      .catch(() => this.#store.drop(columns.length))
      .finally(() => void (this.#pendingBytes -= bytes));
    // Whoever waits for the writes hears of it there.
    contents.catch(() => {});
  }

  /** Done when all that is on its way is there, or was given up. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#writing;
    await this.#store.close();
  }

  async #save(blocks: readonly KeptBlock[], contents: readonly Uint8Array[]): Promise<void> {
    const wanted = blocks
      .map((kept, at) => ({ ...kept, bytes: contents[at] }))
      .filter(({ block }) => !this.#isRecent(this.#noted.get(block.name)));
    for (let at = 0; at < wanted.length; at += mostWritten) {
      const batch = wanted.slice(at, at + mostWritten);
      const isSaved = await this.#store.save(
        batch.map(({ block }) => block),
        batch.map(({ bytes }) => bytes),
      );
      for (const { block, of } of batch)
        if (isSaved) this.#note(block.name);
        else if (of !== undefined) this.#given.delete(of);
    }
  }

  /** Measures what a store that answers takes, where that is not known, or was known long ago; texts go on meanwhile. */
  #measure(): void {
    const { computeBlock, tell } = this.#prefixes;
    const now = performance.now();
    if (computeBlock === undefined || this.#isMeasuring || this.#isClosed || now < this.#measureAt) return;
    this.#measureAt = now + unmeasuredFor;
    this.#isMeasuring = true;
    void measureBreakEven(this.#prefixes, this.#pages, computeBlock).then((found) => {
      this.#isMeasuring = false;
      if (found === undefined || this.#isClosed) return;
      // What changes a little from time to time is nothing to tell.
      const isNew = !this.#isMeasured || (found.leastTokens === Infinity) !== (this.#leastTokens === Infinity);
      this.#measureAt = now + measuredFor;
      this.#isMeasured = true;
      this.#leastTokens = found.leastTokens;
      if (isNew) tell?.(found.told);
    });
  }

  #named(salt: string, tokens: readonly number[]): NamedBlock[] {
    return nameBlocks(this.#fingerprint, salt, tokens, this.#pages.pool.blockSize);
  }

  /** What was given to the store, or came from it, then is there. */
  #isRecent(time = -Infinity): boolean {
    const { keptMilliseconds = Infinity } = this.#prefixes;
    // Before the store lets go of it: it is written again while it is there.
    return performance.now() - time < Math.min(notedFor, keptMilliseconds / 2);
  }

  /** The store may have lost everything. */
  #forget(): void {
    this.#noted.clear();
    this.#given = new WeakMap();
  }

  #note(name: string): void {
    this.#noted.delete(name);
    this.#noted.set(name, performance.now());
    if (this.#noted.size > mostNoted) for (const oldest of this.#noted.keys()) return void this.#noted.delete(oldest);
  }
}
