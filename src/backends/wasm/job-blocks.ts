/**
 * Memory for jobs: small blocks, taken and given back with every recording. Blocks that were given back are kept by their size for the next
 * recording, so that shapes that come and go leave the free regions of the memories as they are.
 */
import type { Taker } from "./arena.js";

/** A stretch of memory that was taken for jobs. */
export interface JobBlock {
  readonly address: number;
  readonly bytes: number;
}

/** Blocks of each size and memory that are kept at most; the others are given back. */
const mostKept = 1024;

/** Sizes are multiples of this: what the memories round up to anyway. */
const unit = 64;

/** The blocks of one session. */
export class JobBlocks {
  readonly #taker: Pick<Taker, "take" | "give">;
  /** Addresses by memory and size, in units. */
  readonly #kept: number[][][] = [];

  constructor(taker: Pick<Taker, "take" | "give">) {
    this.#taker = taker;
  }

  /** A block of at least so many bytes in the memory of this number; the contents are what was there before. */
  take(seat: number, bytes: number): JobBlock {
    const units = Math.ceil(bytes / unit);
    const address = this.#kept[seat]?.[units]?.pop() ?? this.#taker.take(seat, units * unit);
    return { address, bytes: units * unit };
  }

  give(seat: number, { address, bytes }: JobBlock): void {
    const sizes = (this.#kept[seat] ??= []);
    const kept = (sizes[bytes / unit] ??= []);
    if (kept.length < mostKept) kept.push(address);
    else this.#taker.give(seat, address);
  }
}
