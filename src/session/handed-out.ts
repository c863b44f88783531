/**
 * Memory of a session's backend that tensors show which callers have: results on a device, presents that stay inside. It is brought to the host
 * when the session is released, so that those tensors can still be read and fed. Knows no tensor.
 */
interface ShownMemory {
  /** Brings what tensors show of it to the host and lets go of it. Nothing is under way then; the memory may be let go of meanwhile. */
  bringOut(): Promise<void>;
}

/** The memory that is shown of one session: each is taken off when it is let go of. */
export class HandedOut {
  readonly #all = new Set<ShownMemory>();

  add(memory: ShownMemory): void {
    this.#all.add(memory);
  }

  delete(memory: ShownMemory): void {
    this.#all.delete(memory);
  }

  /** Brings everything out that can be: what was lost with its device is not, and says so when it is looked at. */
  async bringOut(): Promise<void> {
    await Promise.allSettled([...this.#all].map((memory) => memory.bringOut()));
    this.#all.clear();
  }
}
