/** Where blocks of pages are kept beyond the life of a process: a folder, or a store that several processes share. Types only. */

/** Bytes by name. A store keeps them as they are, and whoever asks for them checks what comes back. */
export interface PageStore {
  /**
   * What is kept under these names, in their order: undefined where there is nothing. What comes after a gap may be left out. A value that has more than
   * `mostBytes` is of no use: it need not be read.
   */
  load(names: readonly string[], signal: AbortSignal, mostBytes?: number): Promise<readonly (Uint8Array | undefined)[]>;
  /** Keeps values, in place of what was there. The store may let go of them at any time, and of older ones to make room. */
  save(values: ReadonlyMap<string, Uint8Array>, signal: AbortSignal): Promise<void>;
  /** Its answers are not what they should be: a store that has connections makes new ones. */
  renew?(): void;
  /** Gives connections back; nothing is asked of the store afterwards. */
  close(): Promise<void>;
}
