/** Guesses what comes next by what came before: the tokens that followed the last occurrence of the text's end. Knows no model. */

/** How far guesses go. */
interface LookupOptions {
  /** Tokens of the text's end that must have occurred before; the longest that did is taken, from this one down to 2. */
  readonly ngram: number;
  /** Tokens to guess at a time. */
  readonly draft: number;
}

/** An index of where each pair of tokens last occurred: a guess costs a few comparisons however long the text is. */
export class NgramLookup {
  readonly #options: LookupOptions;
  readonly #tokens: number[] = [];
  /** By pair: where its last two occurrences end. */
  readonly #ends = new Map<number, [before: number, last: number]>();

  constructor(options: LookupOptions, tokens: Iterable<number>) {
    this.#options = options;
    for (const token of tokens) this.push(token);
  }

  /** Adds a token to the text. */
  push(token: number): void {
    this.#tokens.push(token);
    const end = this.#tokens.length;
    if (end < 2) return;
    const pair = pairOf(this.#tokens[end - 2], token);
    const ends = this.#ends.get(pair);
    if (ends === undefined) this.#ends.set(pair, [0, end]);
    else {
      ends[0] = ends[1];
      ends[1] = end;
    }
  }

  /** The tokens that may come next; none where the text's end is new. */
  guess(): number[] {
    const tokens = this.#tokens;
    const end = tokens.length;
    if (end < 2) return [];
    const before = this.#ends.get(pairOf(tokens[end - 2], tokens[end - 1]))?.[0] ?? 0;
    if (before === 0) return [];
    let same = 2;
    while (same < this.#options.ngram && before - same > 0 && tokens[before - same - 1] === tokens[end - same - 1])
      same++;
    // A pair that agrees in nothing before it is a poor witness: a short guess costs little.
    const length = same >= this.#options.ngram ? this.#options.draft : Math.ceil(this.#options.draft / 2);
    return tokens.slice(before, before + length);
  }
}

/** One number for two tokens; vocabularies are far below 2 ** 26. */
const pairOf = (first: number, second: number): number => first * 2 ** 26 + second;
