/** The rows of one text in the caches, whatever their layout: how many there are, going back, forks, and what is saved of them. Runs nothing. */

/** The caches of one text. */
export interface Rows {
  /** Bytes of the caches in their full capacity. */
  readonly byteLength: number;
  /** Bytes in use. */
  readonly heldBytes: number;
  /** Bytes that had to be moved so far. */
  readonly movedBytes: number;
  /** False if a part of them has no rows to go back to. */
  readonly goesBack: boolean;
  /** Forgets every row from `length` on. Throws "invalid-argument" where the caches cannot go back: nothing changed then. */
  rewind(length: number): void;
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
