/**
 * Blocks of texts that outlive their pool: what a store has of a prompt is brought into the pool before the prompt's turn, and what a text
 * has read is kept there when it ends. Bytes move between runs only; the store is asked beside them.
 */
import type { PageStore } from "../../base/page-store.js";
import { blockNames } from "../../cache/block-names.js";
import { adoptBlocks, readEachBlock } from "../../cache/page-bytes.js";
import type { PagedState } from "../../cache/paged-state.js";
import type { Sequence } from "../../cache/sequence.js";

/** Where prefixes are kept, and what their bytes depend on beside tokens and salt: model, weights, types, the backend that computed them. */
export interface PrefixStore {
  readonly store: PageStore;
  readonly fingerprint: string;
}

/** A text whose blocks are kept. */
interface SavedText {
  readonly salt: string;
  readonly tokens: readonly number[];
}

/** What a store had of a prompt. */
interface Fetched {
  readonly first: number;
  readonly contents: readonly Uint8Array[];
}

/** Tokens below which a beginning is not worth a look. */
const leastTokens = 64;

/** Bytes that may be on their way to the store; what comes on top is not kept. */
const mostPending = 2 ** 27;

/** Names that are noted as being in the store. */
const mostNoted = 100_000;

/** Brings blocks from a store, and to it. */
export class SavedPrefixes {
  readonly #store: PageStore;
  readonly #fingerprint: string;
  readonly #pages: PagedState;
  /** Names that the store has, or had. */
  readonly #noted = new Set<string>();
  readonly #saving = new Set<Promise<void>>();
  #pendingBytes = 0;

  constructor({ store, fingerprint }: PrefixStore, pages: PagedState) {
    const { pool, blockBytes } = pages;
    this.#store = store;
    this.#fingerprint = JSON.stringify([fingerprint, pool.blockSize, blockBytes]);
    this.#pages = pages;
  }

  /** What the store has of a text beyond what the pool has; never rejects: a store that fails has nothing. */
  async fetch({ salt, tokens }: SavedText): Promise<Fetched | undefined> {
    const { blockSize } = this.#pages.pool;
    if (tokens.length <= leastTokens) return undefined;
    try {
      const names = await this.#namesOf(salt, tokens.slice(0, -1));
      const first = this.#knownBlocks(salt, tokens);
      if ((names.length - first) * blockSize < leastTokens) return undefined;
      const contents = await this.#store.load(names.slice(first));
      names.forEach((name, at) => {
        if (at >= first && at < first + contents.length) this.#note(name);
        // The store let go of it.
        else if (at >= first) this.#noted.delete(name);
      });
      return contents.length === 0 ? undefined : { first, contents };
    } catch {
      return undefined;
    }
  }

  /** Brings into the pool what was fetched. Between runs. */
  bring({ salt, tokens }: SavedText, { first, contents }: Fetched): void {
    adoptBlocks(this.#pages, salt, tokens, first, contents);
  }

  /** Keeps the full blocks of a text that ends. Between runs, before its blocks are given back. */
  keep({ salt, tokens }: SavedText, sequence: Sequence): void {
    const { blockBytes, pool } = this.#pages;
    const count = Math.floor(Math.min(sequence.length, sequence.tokens.length) / pool.blockSize);
    const bytes = count * blockBytes;
    if (count * pool.blockSize < leastTokens || this.#pendingBytes + bytes > mostPending) return;
    this.#pendingBytes += bytes;
    const contents = readEachBlock(this.#pages, sequence.table.slice(0, count));
    const saving = this.#save(salt, tokens.slice(0, count * pool.blockSize), contents)
      .catch(() => undefined)
      .then(() => {
        this.#pendingBytes -= bytes;
        this.#saving.delete(saving);
      });
    this.#saving.add(saving);
  }

  /** All that is on its way is there, or was given up. */
  async settled(): Promise<void> {
    await Promise.all(this.#saving);
  }

  async #save(salt: string, tokens: readonly number[], contents: Promise<readonly Uint8Array[]>): Promise<void> {
    const blocks = await contents;
    const names = await this.#namesOf(salt, tokens);
    for (const [at, name] of names.entries()) {
      if (this.#noted.has(name)) continue;
      await this.#store.save(name, blocks[at]);
      this.#note(name);
    }
  }

  #namesOf(salt: string, tokens: readonly number[]): Promise<string[]> {
    return blockNames(this.#fingerprint, salt, tokens, this.#pages.pool.blockSize);
  }

  /** Blocks of a text that the pool has. */
  #knownBlocks(salt: string, tokens: readonly number[]): number {
    const { pool } = this.#pages;
    const probe = pool.add(undefined, salt);
    try {
      return probe.share(tokens.slice(0, -1)) / pool.blockSize;
    } finally {
      probe.release();
    }
  }

  #note(name: string): void {
    this.#noted.delete(name);
    this.#noted.add(name);
    if (this.#noted.size > mostNoted) for (const oldest of this.#noted) return void this.#noted.delete(oldest);
  }
}
