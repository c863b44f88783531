/**
 * Memory that the jobs of one step hand to each other. Steps run one after the other and make its contents anew each time, so that all
 * steps of a session share the same blocks. A block never moves: jobs that were written hold its address.
 */

/** A stretch that steps take turns with. */
export interface TransientBlock {
  readonly address: number;
  readonly bytes: number;
}

/** The blocks of one memory. */
export class TransientBlocks {
  /** The smallest first. */
  readonly #blocks: TransientBlock[] = [];
  readonly #take: (bytes: number) => number;

  constructor(take: (bytes: number) => number) {
    this.#take = take;
  }

  /** A block for a step that holds `lent` already; it is added to those. */
  lend(bytes: number, lent: Set<TransientBlock>): number {
    const fitting = this.#blocks.find((block) => block.bytes >= bytes && !lent.has(block));
    const block = fitting ?? this.#add(bytes);
    lent.add(block);
    return block.address;
  }

  /** Adds a block that is somewhat larger than asked for, so that the next step that needs a little more finds it. */
  #add(bytes: number): TransientBlock {
    const unit = 2 ** Math.max(6, Math.floor(Math.log2(Math.max(1, bytes))) - 2);
    const size = Math.ceil(Math.max(1, bytes) / unit) * unit;
    const block = { address: this.#take(size), bytes: size };
    const at = this.#blocks.findIndex((other) => other.bytes > size);
    this.#blocks.splice(at < 0 ? this.#blocks.length : at, 0, block);
    return block;
  }
}
