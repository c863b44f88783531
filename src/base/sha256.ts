/**
 * SHA-256 without waiting, of bytes that may come one after the other. The platforms' own digests are asynchronous: a chain of them would wait for a
 * turn of the event loop at each link, which takes as long as a run where runs hold the thread; and in browsers they take all bytes at once.
 */

/** The first 32 bits behind the point of roots of the first primes: square roots begin a digest, cube roots go into its rounds. */
function fractions(count: number, power: number): Uint32Array {
  const primes: number[] = [];
  for (let next = 2; primes.length < count; next++) if (primes.every((prime) => next % prime !== 0)) primes.push(next);
  return Uint32Array.from(primes, (prime) => (prime ** power % 1) * 2 ** 32);
}

const start = fractions(8, 1 / 2);
const rounds = fractions(64, 1 / 3);

const turned = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits));

/** The digest of bytes. */
export function sha256(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const digest = new Sha256();
  digest.update(bytes);
  return digest.end();
}

/** The digest of bytes that come one after the other. */
export class Sha256 {
  readonly #state: Uint32Array = Uint32Array.from(start);
  readonly #words: Uint32Array = new Uint32Array(64);
  /** Bytes that do not fill a block of 64 yet. */
  readonly #block: Uint8Array = new Uint8Array(64);
  #held = 0;
  #length = 0;

  update(bytes: Uint8Array): void {
    this.#length += bytes.length;
    let at = 0;
    if (this.#held > 0) {
      at = Math.min(64 - this.#held, bytes.length);
      this.#block.set(bytes.subarray(0, at), this.#held);
      this.#held += at;
      if (this.#held < 64) return;
      this.#mix(this.#block, 0);
      this.#held = 0;
    }
    for (; at + 64 <= bytes.length; at += 64) this.#mix(bytes, at);
    this.#block.set(bytes.subarray(at));
    this.#held = bytes.length - at;
  }

  /** The digest of all; nothing may follow. */
  end(): Uint8Array<ArrayBuffer> {
    // [bytes, a one, zeros, how many bits there were]
    const length = this.#length;
    const rest = new Uint8Array((this.#held < 56 ? 64 : 128) - this.#held);
    rest[0] = 0x80;
    const view = new DataView(rest.buffer);
    view.setUint32(rest.length - 8, Math.floor(length / 2 ** 29));
    view.setUint32(rest.length - 4, (length * 8) % 2 ** 32);
    this.update(rest);
    const result = new Uint8Array(32);
    const out = new DataView(result.buffer);
    this.#state.forEach((word, index) => out.setUint32(4 * index, word));
    return result;
  }

  #mix(bytes: Uint8Array, from: number): void {
    const words = this.#words;
    for (let word = 0, at = from; word < 16; word++, at += 4)
      words[word] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
    mix(this.#state, words);
  }
}

/** Takes 64 bytes into the state; `words` has them, and room for 48 more. */
function mix(state: Uint32Array, words: Uint32Array): void {
  for (let at = 16; at < 64; at++) {
    const [early, late] = [words[at - 15], words[at - 2]];
    const low = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
    const high = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
    words[at] = words[at - 16] + low + words[at - 7] + high;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let at = 0; at < 64; at++) {
    const choice = (e & f) ^ (~e & g);
    const one = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + choice + rounds[at] + words[at]) | 0;
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const two = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + majority) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}
