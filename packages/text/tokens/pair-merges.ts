/**
 * Byte-pair encoding of one word: of the pairs that the vocabulary merges the first of its list goes first, and of equals the leftmost. Takes time for
 * the length of the word times its logarithm, in steps. In place of the library's own, whose pairs are looked up as texts.
 */
import { replaceRoot } from "#insitu/base/heap.js";

/** Merges between two steps. */
const mergesPerStep = 4_096;

/** Characters from which on a word is merged in steps. */
export const longWord = 2_048;

const none = -1;

/** The merges of a vocabulary. */
export class PairMerges {
  /** Every text that is merged, or comes of it, by its number, and the other way round. */
  readonly #texts: string[] = [];
  readonly #numbers = new Map<string, number>();
  /** Where in the list a pair stands, and what it becomes. */
  readonly #ranks = new Map<number, number>();
  readonly #merged: number[] = [];
  readonly #count: number;

  constructor(merges: readonly (readonly [string, string])[]) {
    for (const [left, right] of merges) for (const text of [left, right, left + right]) this.#number(text);
    this.#count = this.#texts.length;
    for (const [rank, [left, right]] of merges.entries()) {
      this.#ranks.set(this.#number(left) * this.#count + this.#number(right), rank);
      this.#merged.push(this.#number(left + right));
    }
  }

  /** What the characters of a word become. */
  *merge(word: readonly string[]): Generator<void, string[]> {
    const { length } = word;
    if (length === 0) return [];
    const symbols = Int32Array.from(word, (text) => this.#numbers.get(text) ?? none);
    const next = Int32Array.from(word, (_, at) => (at + 1 < length ? at + 1 : none));
    const before = Int32Array.from(word, (_, at) => at - 1);
    // Candidates, the least first: the rank, and of equals the place.
    const heap = new LeastFirst();
    const ranks = new Int32Array(length).fill(none);
    const look = (at: number): void => {
      const right = next[at];
      const rank =
        right === none || symbols[at] === none || symbols[right] === none
          ? undefined
          : this.#ranks.get(symbols[at] * this.#count + symbols[right]);
      ranks[at] = rank ?? none;
      if (rank !== undefined) heap.push(rank * length + at);
    };
    for (let at = 0; at < length; at++) {
      look(at);
      if (at % mergesPerStep === mergesPerStep - 1) yield;
    }
    for (let count = 1, key = heap.pop(); key !== undefined; key = heap.pop(), count++) {
      const at = key % length;
      // What was merged since, or stands beside something else now, has another rank.
      if (ranks[at] !== Math.floor(key / length)) continue;
      const right = next[at];
      symbols[at] = this.#merged[ranks[at]];
      ranks[right] = none;
      next[at] = next[right];
      if (next[at] !== none) before[next[at]] = at;
      look(at);
      if (before[at] !== none) look(before[at]);
      if (count % mergesPerStep === 0) yield;
    }
    const made: string[] = [];
    for (let at = 0; at !== none; at = next[at]) made.push(symbols[at] === none ? word[at] : this.#texts[symbols[at]]);
    return made;
  }

  #number(text: string): number {
    let number = this.#numbers.get(text);
    if (number === undefined) {
      number = this.#texts.push(text) - 1;
      this.#numbers.set(text, number);
    }
    return number;
  }
}

/** Numbers of which the least is taken first. */
class LeastFirst {
  readonly #heap: number[] = [];

  push(key: number): void {
    const heap = this.#heap;
    let at = heap.push(key) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (heap[parent] <= key) break;
      heap[at] = heap[parent];
      at = parent;
    }
    heap[at] = key;
  }

  pop(): number | undefined {
    const heap = this.#heap;
    const least = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return last;
    replaceRoot(heap, last);
    return least;
  }
}
