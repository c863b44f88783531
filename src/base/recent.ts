/** A few things that are kept to be used again: the least recently used goes first. What goes is handed back, for its owner to free or reuse. */

/** Things in the order of their last use. They are few and each is recognised by a test of its own: looking through them is quicker than a key. */
export class Recent<T> implements Iterable<T> {
  readonly #most: number;
  /** The last used first. */
  readonly #kept: T[] = [];

  /** Keeps `most` at once. */
  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#kept.length;
  }

  /** The most recently used that fits, which is used by this. */
  use(fits: (each: T) => boolean): T | undefined {
    const kept = this.#kept;
    for (let at = 0; at < kept.length; at++) {
      const each = kept[at];
      if (!fits(each)) continue;
      if (at > 0) {
        kept.copyWithin(1, 0, at);
        kept[0] = each;
      }
      return each;
    }
    return undefined;
  }

  /** Keeps one more, just used; hands back the one that went for it, if one had to. */
  add(one: T): T | undefined {
    const gone = this.makeRoom();
    this.#kept.unshift(one);
    return gone;
  }

  /** Lets go of the least recently used where there is no room for another, and hands it back. */
  makeRoom(): T | undefined {
    return this.#kept.length < this.#most ? undefined : this.#kept.pop();
  }

  /** Lets go of all that a test names, and hands them back. */
  drop(goes: (each: T) => boolean): T[] {
    const gone = this.#kept.filter(goes);
    if (gone.length > 0) this.#kept.splice(0, Infinity, ...this.#kept.filter((each) => !gone.includes(each)));
    return gone;
  }

  /** From the most recently used on. */
  [Symbol.iterator](): Iterator<T> {
    return this.#kept.values();
  }
}
