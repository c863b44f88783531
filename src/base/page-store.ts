/** Where blocks of pages are kept beyond the life of a process: a folder, or a store that several processes share. Types only. */

/** Blocks by name. A name says all that a block's bytes depend on, so that what is there is never another's. */
export interface PageStore {
  /** The blocks with these names, as far as the first ones are there without a gap. What cannot be read is not there. */
  load(names: readonly string[]): Promise<readonly Uint8Array[]>;
  /** Keeps a block. The store may let go of it at any time, and of older ones to make room. */
  save(name: string, bytes: Uint8Array): Promise<void>;
}
