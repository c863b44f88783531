/** The rows of one text in the caches, whatever their layout: how many there are, going back, forks, and what is saved of them. Runs nothing. */

/** Why somebody may come back: a text begins here or part of a prompt ends, a token was made, or what is read next may be wrong. */
export type MarkReason = "text" | "token" | "guess";

/** The caches of one text. */
export interface Rows {
  /** Bytes of the caches in their full capacity. */
  readonly byteLength: number;
  /** Bytes in use. */
  readonly heldBytes: number;
  /** Bytes that had to be moved so far. */
  readonly movedBytes: number;
  /** False if a part of them has no rows: it goes back to checkpoints alone. */
  readonly goesBack: boolean;
  /** True if tokens may be read that turn out wrong: going back does not cost more than they save. */
  readonly mayGuess: boolean;
  /** True if positions alone tell which of two kinds of texts is read; false where the number of rows does. */
  readonly tellsKinds: boolean;
  /** Rows of long texts, or of short ones again, are what follows: only while there are none. */
  readAs(kind: "short" | "long"): void;
  /** Notes that so many tokens were read, where checkpoints are needed to go back: whether this is a place for one is decided here. */
  mark(length: number, why: MarkReason): void;
  /**
   * Forgets every row from `length` on, or from the last checkpoint before it; how many rows there are then. Throws "invalid-argument" where
   * the caches cannot go back: nothing changed then.
   */
  rewind(length: number): number;
  /** A second text with the same rows; bytes are copied when one of the two is written. */
  fork(): Rows;
  /** Takes over what others have read of tokens that go on from this text's `length` known ones; how many rows there are then. */
  share(tokens: readonly number[], length: number): number;
  /** Says which tokens the first rows hold that were read before the host knew them. */
  learn(tokens: readonly number[]): void;
  /** Rows whose bytes were saved, where they are counted. */
  readonly countedRows: number | undefined;
  save(): Promise<Uint8Array>;
  restore(bytes: Uint8Array): Promise<void>;
  release(): void;
}
