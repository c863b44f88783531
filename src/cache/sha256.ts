/**
 * SHA-256 of a few bytes, at once. The platforms' own digests are asynchronous: a chain of them would wait for a turn of the event loop at each
 * link, which takes as long as a run where runs hold the thread. Large contents are digested by the platform, beside the thread.
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
  // [bytes, a one, zeros, how many bits there were]
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, (bytes.length * 8) % 2 ** 32);
  const state = Uint32Array.from(start);
  const words = new Uint32Array(64);
  for (let at = 0; at < padded.length; at += 64) {
    for (let word = 0; word < 16; word++) words[word] = view.getUint32(at + 4 * word);
    mix(state, words);
  }
  const result = new Uint8Array(32);
  const out = new DataView(result.buffer);
  state.forEach((word, index) => out.setUint32(4 * index, word));
  return result;
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
    const one = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + choice + rounds[at] + words[at];
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + majority;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, at) => (state[at] += word));
}
