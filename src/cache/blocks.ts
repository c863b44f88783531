/**
 * The blocks of a pool: which are free, how many sequences use each, and which are kept for their contents although nobody uses them.
 * Counts only; what the blocks mean to a sequence is the sequence's.
 */
import type { PrefixIndex } from "./prefix-index.js";

/** Reference counts, free blocks and kept ones. */
export class Blocks {
  readonly count: number;
  readonly #index: PrefixIndex;
  readonly #references: Int32Array;
  /** The next to be taken is the last. */
  readonly #free: number[];
  /** Unused blocks with known contents; the one that was used longest ago comes first. */
  readonly #kept = new Set<number>();

  constructor(count: number, index: PrefixIndex) {
    this.count = count;
    this.#index = index;
    this.#references = new Int32Array(count);
    this.#free = Array.from({ length: count }, (_, at) => count - 1 - at);
  }

  /** Blocks that can be taken: free ones and kept ones. */
  get available(): number {
    return this.#free.length + this.#kept.size;
  }

  get free(): number {
    return this.#free.length;
  }

  get kept(): number {
    return this.#kept.size;
  }

  /** How many sequences use a block. */
  references(block: number): number {
    return this.#references[block];
  }

  /** True if nobody uses the block but its contents are known. */
  isKept(block: number): boolean {
    return this.#kept.has(block);
  }

  /** A block for one user: a free one, else the kept one that was used longest ago. Ask `available` first. */
  take(): number {
    let block = this.#free.pop();
    if (block === undefined) {
      [block] = this.#kept;
      this.#kept.delete(block);
      this.#index.forget(block);
    }
    this.#references[block] = 1;
    return block;
  }

  /** One user more. */
  retain(block: number): void {
    this.#kept.delete(block);
    this.#references[block]++;
  }

  /** One user less; a block without users is kept where its contents are known, else free. */
  drop(block: number): void {
    if (--this.#references[block] > 0) return;
    if (this.#index.of(block) === undefined) this.#free.push(block);
    else this.#kept.add(block);
  }

  /** Makes kept blocks free. */
  clear(): void {
    for (const block of this.#kept) {
      this.#index.forget(block);
      this.#free.push(block);
    }
    this.#kept.clear();
  }
}
