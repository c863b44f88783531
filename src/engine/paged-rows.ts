/** A text on pages: a sequence of the block pool. Beginnings are shared with other texts, forks share all they have in common. */
import { readBlocks, writeBlocks } from "../cache/page-bytes.js";
import type { PagedState } from "../cache/paged-state.js";
import type { Sequence } from "../cache/sequence.js";
import type { Rows } from "./rows.js";

/** Gives back the blocks of texts that were dropped without `release`. */
const dropped = new FinalizationRegistry<Sequence>((sequence) => sequence.release());

/** The blocks of one text. */
export class PagedRows implements Rows {
  readonly sequence: Sequence;
  readonly #pages: PagedState;
  readonly #capacity: number;
  readonly #copiesBefore: number;
  /** What short texts share beginnings by. */
  readonly #salt: string;

  /** `capacity`: rows that it may have; `salt`: what its text shares beginnings by. */
  constructor(pages: PagedState, sequence: Sequence, capacity: number, salt: string = sequence.salt) {
    this.#pages = pages;
    this.sequence = sequence;
    this.#capacity = capacity;
    this.#salt = salt;
    this.#copiesBefore = pages.pool.copies;
    dropped.register(this, sequence, this);
  }

  get byteLength(): number {
    return (this.#pages.blockBytes / this.#pages.pool.blockSize) * this.#capacity;
  }

  get heldBytes(): number {
    return this.sequence.table.length * this.#pages.blockBytes + this.#pages.stateBytes;
  }

  get movedBytes(): number {
    return (this.#pages.pool.copies - this.#copiesBefore) * this.#pages.blockBytes;
  }

  get goesBack(): boolean {
    return this.#pages.states === undefined;
  }

  /** A checkpoint is at the end of a block, and guesses are few. */
  get mayGuess(): boolean {
    return this.goesBack;
  }

  get tellsKinds(): boolean {
    return true;
  }

  /** Keys of long texts are turned otherwise: they share nothing with short ones. */
  readAs(kind: "short" | "long"): void {
    this.sequence.separate(kind === "long" ? `${this.#salt}\nlong` : this.#salt);
  }

  /** Pages take checkpoints by themselves. */
  mark(): void {}

  rewind(length: number): number {
    const reached = this.#pages.reachable(this.sequence, length);
    this.sequence.truncate(reached);
    return reached;
  }

  fork(): PagedRows {
    return new PagedRows(this.#pages, this.sequence.fork(), this.#capacity, this.#salt);
  }

  share(tokens: readonly number[], length: number): number {
    const { sequence } = this;
    return sequence.position === sequence.tokens.length ? sequence.share(tokens) : length;
  }

  learn(tokens: readonly number[]): void {
    this.sequence.learn(tokens);
  }

  get countedRows(): number {
    return this.sequence.length;
  }

  save(): Promise<Uint8Array> {
    return readBlocks(this.#pages, [this.sequence]);
  }

  async restore(bytes: Uint8Array): Promise<void> {
    writeBlocks(this.#pages, [this.sequence], bytes, this.#capacity);
  }

  release(): void {
    dropped.unregister(this);
    this.sequence.release();
  }
}
