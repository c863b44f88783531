/** The blocks of a pool as the scheduler sees them: a sequence for each text that has blocks. */
import type { BlockPool } from "../../cache/block-pool.js";
import type { Sequence } from "../../cache/sequence.js";
import type { TextBlocks } from "../../schedule/text-blocks.js";

/** What is known of a text. */
interface KnownText {
  readonly salt: string;
  /** The prompt's, and those that were made. */
  readonly tokens: readonly number[];
}

/** Sequences by text. */
export class PoolBlocks implements TextBlocks {
  readonly #pool: BlockPool;
  readonly #textOf: (id: string) => KnownText;
  readonly #sequences = new Map<string, Sequence>();

  constructor(pool: BlockPool, textOf: (id: string) => KnownText) {
    this.#pool = pool;
    this.#textOf = textOf;
  }

  get available(): number {
    return this.#pool.room / this.#pool.blockSize;
  }

  /** Where a text lies, if it has blocks. */
  find(id: string): Sequence | undefined {
    return this.#sequences.get(id);
  }

  /** Where a text lies, or is to lie. */
  sequence(id: string): Sequence {
    let sequence = this.#sequences.get(id);
    if (sequence === undefined) this.#sequences.set(id, (sequence = this.#pool.add(undefined, this.#textOf(id).salt)));
    return sequence;
  }

  share(id: string): number {
    return this.sequence(id).share(this.#textOf(id).tokens.slice(0, -1));
  }

  names(id: string, _from: number, to: number): readonly number[] {
    return this.sequence(id).blockHashes(this.#textOf(id).tokens, to);
  }

  release(id: string): void {
    this.#sequences.get(id)?.release();
    this.#sequences.delete(id);
  }
}
