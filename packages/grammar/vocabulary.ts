/** The tokens of a vocabulary by their bytes: which of them a grammar lets come next is found in one walk over what they begin with. */
import type { GrammarVocabulary } from "#insitu/engine/constraint.js";
import { pause } from "#insitu/engine/pause.js";
import { bytesOfLetters } from "#insitu/text/tokens/byte-letters.js";
import { compareBytes } from "./automaton.js";
import { limits, refusal } from "./limits.js";
import type { Machine, Situation } from "./machine.js";

/** Tokens whose bytes are sorted in before events are served. */
const tokensAtOnce = 20_000;

function bytesOf(spelling: string, kind: GrammarVocabulary["kind"], encoder: TextEncoder): Uint8Array {
  if (kind === "byte_level") {
    const bytes = Array.from(spelling, (letter) => bytesOfLetters.get(letter));
    // A token that is spelled with other letters was added as it is.
    return bytes.includes(undefined) ? encoder.encode(spelling) : Uint8Array.from(bytes as readonly number[]);
  }
  const [, hex] = /^<0x([\dA-Fa-f]{2})>$/.exec(spelling) ?? [];
  return hex === undefined ? encoder.encode(spelling.replaceAll("\u2581", " ")) : Uint8Array.of(parseInt(hex, 16));
}

/** The tokens as a tree of bytes, written out from each node to those below it. */
export class VocabularyTree {
  /** Words of a mask over all tokens. */
  readonly words: number;
  readonly #bytes: readonly Uint8Array[];
  readonly #ends: ReadonlySet<number>;
  /** For each node its byte, how deep it lies, where the nodes below it end, and where its tokens begin in the list. */
  readonly #byte: Uint8Array;
  readonly #depth: Uint16Array;
  readonly #end: Int32Array;
  readonly #first: Int32Array;
  readonly #tokens: Int32Array;
  readonly #deepest: number;

  private constructor(bytes: readonly Uint8Array[], sorted: Int32Array, ends: ReadonlySet<number>) {
    this.#bytes = bytes;
    this.#ends = ends;
    this.words = Math.ceil(bytes.length / 32);
    this.#tokens = sorted;
    const nodes: { byte: number; depth: number; end: number; first: number }[] = [];
    let before = new Uint8Array(0);
    const path: number[] = [];
    const close = (depth: number): void => {
      for (const node of path.splice(depth)) nodes[node].end = nodes.length;
    };
    sorted.forEach((token, at) => {
      const spelled = bytes[token];
      let shared = 0;
      while (shared < before.length && shared < spelled.length && before[shared] === spelled[shared]) shared++;
      close(shared);
      for (let depth = shared; depth < spelled.length; depth++) {
        path.push(nodes.length);
        nodes.push({ byte: spelled[depth], depth, end: 0, first: at });
      }
      before = spelled as Uint8Array<ArrayBuffer>;
    });
    close(0);
    this.#byte = Uint8Array.from(nodes, ({ byte }) => byte);
    this.#depth = Uint16Array.from(nodes, ({ depth }) => depth);
    this.#end = Int32Array.from(nodes, ({ end }) => end);
    this.#first = Int32Array.from(nodes, ({ first }) => first);
    this.#deepest = Math.max(0, ...new Set(nodes.map(({ depth }) => depth)));
  }

  /** Sorts a vocabulary; events are served meanwhile. Tokens without a spelling, and end tokens, are no text. */
  static async of({ kind, spellings, endTokens }: GrammarVocabulary): Promise<VocabularyTree> {
    const encoder = new TextEncoder();
    const ends = new Set(endTokens);
    const bytes: Uint8Array[] = [];
    for (const [token, spelling] of spellings.entries()) {
      bytes.push(ends.has(token) ? new Uint8Array(0) : bytesOf(spelling, kind, encoder));
      if (token % tokensAtOnce === 0) await pause();
    }
    const tokens = Int32Array.from(bytes.keys()).filter((token) => bytes[token].length > 0);
    await pause();
    return new VocabularyTree(
      bytes,
      tokens.sort((a, b) => compareBytes(bytes[a], bytes[b])),
      ends,
    );
  }

  /** Where a token leads; undefined where it cannot come. */
  follow(machine: Machine, from: Situation, token: number): Situation | undefined {
    const bytes = this.#bytes[token];
    if (bytes === undefined || bytes.length === 0) return undefined;
    let at: Situation | null = from;
    for (const byte of bytes) if ((at = machine.step(at, byte)) === null) return undefined;
    return at;
  }

  /** True for a token that ends texts. */
  isEnd(token: number): boolean {
    return this.#ends.has(token);
  }

  /** True if every token may come. */
  isAll(mask: Uint32Array): boolean {
    const left = this.#bytes.length & 31;
    return mask.every((word, at) => word === (at === mask.length - 1 && left > 0 ? 2 ** left - 1 : 0xffffffff));
  }

  /** The tokens that may come next, as bits. */
  mask(machine: Machine, from: Situation): Uint32Array {
    const mask = new Uint32Array(this.words);
    const byte = this.#byte;
    const count = byte.length;
    const mostSteps = machine.steps + limits.stepsOfToken;
    const path: Situation[] = Array<Situation>(this.#deepest + 2).fill(from);
    for (let node = 0; node < count;) {
      const depth = this.#depth[node];
      const before = path[depth];
      const known = before.next[byte[node]];
      const next = known === undefined ? machine.step(before, byte[node]) : known;
      if (machine.steps > mostSteps)
        throw refusal("", `has too many similar alternatives: a token takes more than ${limits.stepsOfToken} steps`);
      if (next === null) {
        node = this.#end[node];
        continue;
      }
      path[depth + 1] = next;
      // Tokens that end here stand before those of the nodes below it.
      const below = node + 1 < count ? this.#first[node + 1] : this.#tokens.length;
      for (let at = this.#first[node]; at < below; at++) {
        const token = this.#tokens[at];
        mask[token >>> 5] |= 1 << (token & 31);
      }
      node++;
    }
    if (from.mayEnd) for (const token of this.#ends) mask[token >>> 5] |= 1 << (token & 31);
    return mask;
  }
}
