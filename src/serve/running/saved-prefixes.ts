/**
 * Blocks of texts that outlive their pool: what a store has of a prompt is brought into the pool before the prompt's turn, and what a text
 * has read is kept there. Bytes move between runs only; the store is asked beside them.
 */
import type { PageStore } from "../../base/page-store.js";
import { type NamedBlock, nameBlocks } from "../../cache/block-names.js";
import { readEachBlock } from "../../cache/page-bytes.js";
import type { PagedState } from "../../cache/paged-state.js";
import type { Sequence } from "../../cache/sequence.js";
import type { StoreFigures } from "../engine.js";
import { CheckedStore, type CheckedStoreOptions } from "./checked-store.js";

/** Where prefixes are kept, and what their bytes depend on beside tokens and salt: model, weights, types, the backend that computed them. */
export interface PrefixStore extends CheckedStoreOptions {
  readonly store: PageStore;
  readonly fingerprint: string;
  /** Tokens from which on the store is asked for a beginning: what a run would take longer for. 64 where left out. */
  readonly leastTokens?: number;
}

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

/** Bytes that may be on their way to the store; what comes on top is not kept. */
const mostPending = 2 ** 27;

/** Blocks that are written in one go. */
const mostWritten = 16;

/** Names that are noted as being in the store, and for how many milliseconds: what it let go of is written again some time. */
const mostNoted = 100_000;
const notedFor = 3_600_000;

/** Brings blocks from a store, and to it. */
export class SavedPrefixes {
  readonly #store: CheckedStore;
  readonly #fingerprint: string;
  readonly #pages: PagedState;
  readonly #leastTokens: number;
  /** Names that the store has, or had, and when that was known. */
  readonly #noted = new Map<string, number>();
  /** Contents of the pool's blocks that the store was given, or gave, and when that was. */
  #given = new WeakMap<object, number>();
  /** The writes that are under way or wait, one after the other. */
  #writing: Promise<void> = Promise.resolve();
  #pendingBytes = 0;

  constructor({ store, fingerprint, leastTokens = 64, ...options }: PrefixStore, pages: PagedState) {
    this.#store = new CheckedStore(store, pages.blockBytes, options);
    this.#store.onBack(() => this.#forget());
    this.#fingerprint = pageFingerprint(fingerprint, pages);
    this.#pages = pages;
    this.#leastTokens = leastTokens;
  }

  get figures(): StoreFigures {
    return this.#store.figures;
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
      (column) => !isRecent(this.#given.get(sequence.contentsOf(column) ?? sequence)),
    );
    if (columns.length === 0) return;
    const bytes = columns.length * blockBytes;
    if (this.#pendingBytes + bytes > mostPending) return this.#store.drop(columns.length);
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
    await this.#writing;
    await this.#store.close();
  }

  async #save(blocks: readonly KeptBlock[], contents: readonly Uint8Array[]): Promise<void> {
    const wanted = blocks
      .map((kept, at) => ({ ...kept, bytes: contents[at] }))
      .filter(({ block }) => !isRecent(this.#noted.get(block.name)));
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

  #named(salt: string, tokens: readonly number[]): NamedBlock[] {
    return nameBlocks(this.#fingerprint, salt, tokens, this.#pages.pool.blockSize);
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

const isRecent = (time = -Infinity): boolean => performance.now() - time < notedFor;

/** What names depend on beside tokens and salt. */
export const pageFingerprint = (fingerprint: string, { pool, blockBytes }: PagedState): string =>
  JSON.stringify([fingerprint, pool.blockSize, blockBytes]);
