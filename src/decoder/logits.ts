/** What a decoder's run said of the next token, row by row for each sample. Chooses nothing. */

import { InsituError } from "../base/error.js";
import { readNumbers } from "../tensor/access.js";
import type { Tensor } from "../tensor/tensor.js";

/** Logits of the last rows of each sample. */
export class Logits {
  readonly #rows: Float32Array;
  readonly #count: number;
  readonly #vocabulary: number;
  readonly #places: readonly number[] | undefined;

  /** The hidden states of all tokens of the run, where they were asked for. */
  hidden: Logits | undefined;

  /** `rows` are [samples, count, vocabulary]; `places`: where each sample's logits are, if some samples have none. */
  constructor(rows: Float32Array, count: number, vocabulary: number, places?: readonly number[]) {
    this.#rows = rows;
    this.#count = count;
    this.#vocabulary = vocabulary;
    this.#places = places;
  }

  /** The same logits for other samples: each is given its place, or -1. */
  placed(places: readonly number[]): Logits {
    const own = places.map((place) => this.#places?.[place] ?? place);
    return new Logits(this.#rows, this.#count, this.#vocabulary, own);
  }

  /** The same logits with `count` samples taken for one. */
  inRows(count: number): Logits {
    if (this.#places === undefined) return new Logits(this.#rows, this.#count * count, this.#vocabulary);
    if (count === 1) return this;
    const picked = new Float32Array(this.#places.length * this.#vocabulary);
    this.#places.forEach((_, sample) => picked.set(this.at(0, sample), sample * this.#vocabulary));
    return new Logits(picked, count, this.#vocabulary);
  }

  /** The logits after the token that comes `fromEnd` tokens before the last: a view. */
  at(fromEnd: number, sample = 0): Float32Array {
    if (fromEnd >= this.#count)
      throw new InsituError(
        "invalid-model",
        `the model has logits of the last ${this.#count} tokens of a run, and those of the token ${fromEnd} before the last are needed; an option that checks several tokens at once, such as speculate, needs logits of all tokens`,
      );
    const row = ((this.#places?.[sample] ?? sample) + 1) * this.#count - 1 - fromEnd;
    return this.#rows.subarray(row * this.#vocabulary, (row + 1) * this.#vocabulary);
  }

  /** A row by its number among all: a view. */
  row(at: number): Float32Array {
    return this.#rows.subarray(at * this.#vocabulary, (at + 1) * this.#vocabulary);
  }

  /** The logits after each of the last `tokens` tokens, one row after another, as far as the model gave them: a view. */
  last(tokens: number, sample = 0): Float32Array {
    const end = ((this.#places?.[sample] ?? sample) + 1) * this.#count;
    return this.#rows.subarray((end - Math.min(tokens, this.#count)) * this.#vocabulary, end * this.#vocabulary);
  }
}

/** Numbers as float32. */
export function floatsOf(tensor: Tensor): Float32Array {
  const numbers = tensor.type === "float32" ? (tensor.data as Float32Array) : readNumbers(tensor.toView());
  return numbers instanceof Float32Array ? numbers : Float32Array.from(numbers);
}
