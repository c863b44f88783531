/**
 * The chance behind a drawn token: one Gumbel-distributed number for each token of the vocabulary, a pure function of seed, counter and
 * token. Whoever adds them to scores and takes the largest has drawn from the scores' softmax, wherever that is computed. The generator is
 * Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
 */

/** The rotations of eight rounds; then they begin again. */
export const threefryRotations: readonly number[] = [13, 15, 26, 6, 17, 29, 16, 24];

/** What the third word of a key is made with. */
export const threefryParity = 0x1bd11bda;

/** Where an operator draws, a nucleus is looked for among so many of the likeliest tokens at most. */
export const mostNucleus = 1024;

/** Temperatures below the smallest normal float32 take the likeliest token: devices know no smaller number. */
export const leastTemperature: number = 2 ** -126;

/** No noise is larger: words have 32 bits. */
export const mostNoise: number = 33 * Math.LN2;

/** The two words that Threefry-2x32-20 makes of a counter under a key. */
export function threefry(
  [key0, key1]: readonly [number, number],
  [counter0, counter1]: readonly [number, number],
): readonly [number, number] {
  const keys = [key0 | 0, key1 | 0, key0 ^ key1 ^ threefryParity];
  let [x, y] = [(counter0 + keys[0]) | 0, (counter1 + keys[1]) | 0];
  for (let group = 0; group < 5; group++) {
    for (let round = 0; round < 4; round++) {
      const turn = threefryRotations[(4 * group + round) % 8];
      x = (x + y) | 0;
      y = ((y << turn) | (y >>> (32 - turn))) ^ x;
    }
    x = (x + keys[(group + 1) % 3]) | 0;
    y = (y + keys[(group + 2) % 3] + group + 1) | 0;
  }
  return [x >>> 0, y >>> 0];
}

/** A number of the Gumbel distribution out of 32 random bits. */
export const gumbel = (word: number): number => -Math.log(-Math.log1p(-(word + 0.5) / 2 ** 32));

/** A whole number as the two words of its 64 bits, the low one first. */
function wordsOf(whole: number | bigint): readonly [low: number, high: number] {
  const bits = BigInt.asUintN(64, BigInt(whole));
  return [Number(bits & 0xffffffffn), Number(bits >> 32n)];
}

/** The noise of one token after another under one seed; neighbours share a call of the generator. */
export class TokenNoise {
  readonly #key: readonly [number, number];
  #counter = 0;
  #pair = -1;
  #words: readonly [number, number] = [0, 0];

  constructor(seed: number | bigint) {
    this.#key = wordsOf(seed);
  }

  /** The numbers from here on are those of the draw that has this number. */
  begin(counter: number): void {
    this.#counter = counter;
    this.#pair = -1;
  }

  /** What is added to a token's score. */
  at(token: number): number {
    const pair = token >>> 1;
    if (pair !== this.#pair) {
      this.#pair = pair;
      this.#words = threefry(this.#key, [this.#counter, pair]);
    }
    return gumbel(this.#words[token & 1]);
  }
}
