/**
 * Which blocks hold which beginnings of texts: a chain of full blocks, found by hash and verified by tokens. Knows nothing of who uses
 * a block; a bad hash makes it slow, never wrong.
 */

/** A full block whose tokens, and all tokens before them, are known. */
export interface PrefixNode {
  /** The block before it; undefined for the first block of a text. */
  readonly parent: PrefixNode | undefined;
  /** Beginnings are shared by texts of one salt only. */
  readonly salt: string;
  readonly hash: number;
  readonly tokens: readonly number[];
  readonly block: number;
}

/** The hash of a block from the hash of what comes before it and its own tokens. */
export type PrefixHash = (before: number, tokens: readonly number[]) => number;

/** FNV-1a over the tokens' bytes, chained. */
const prefixHash: PrefixHash = (before, tokens) => {
  let hash = before ^ 0x811c9dc5;
  for (const token of tokens)
    for (let rest = token, byte = 0; byte < 4; byte++, rest >>>= 8) hash = Math.imul(hash ^ (rest & 255), 0x01000193);
  return hash >>> 0;
};

/** The known blocks of one pool. */
export class PrefixIndex {
  readonly #hash: PrefixHash;
  readonly #byHash = new Map<number, PrefixNode[]>();
  readonly #byBlock = new Map<number, PrefixNode>();

  constructor(hash: PrefixHash = prefixHash) {
    this.#hash = hash;
  }

  /** The block that holds `tokens` after `parent`. The parent is compared by identity: its own tokens were verified when it was found. */
  find(parent: PrefixNode | undefined, tokens: readonly number[], salt: string): PrefixNode | undefined {
    const candidates = this.#byHash.get(this.hashAfter(parent?.hash, tokens, salt));
    return candidates?.find(
      (node) =>
        node.parent === parent &&
        node.salt === salt &&
        node.tokens.length === tokens.length &&
        node.tokens.every((token, at) => token === tokens[at]),
    );
  }

  /** Makes a block known. It must not be known yet. */
  add(parent: PrefixNode | undefined, tokens: readonly number[], salt: string, block: number): PrefixNode {
    const node = { parent, salt, hash: this.hashAfter(parent?.hash, tokens, salt), tokens: [...tokens], block };
    const same = this.#byHash.get(node.hash);
    if (same === undefined) this.#byHash.set(node.hash, [node]);
    else same.push(node);
    this.#byBlock.set(block, node);
    return node;
  }

  /** The hash of a block of tokens after the one with hash `before`, or of the first block of a text. */
  hashAfter(before: number | undefined, tokens: readonly number[], salt: string): number {
    if (before !== undefined || salt === "") return this.#hash(before ?? 0, tokens);
    return this.#hash(
      this.#hash(
        0,
        Array.from(salt, (letter) => letter.codePointAt(0)!),
      ),
      tokens,
    );
  }

  /** What is known of a block. */
  of(block: number): PrefixNode | undefined {
    return this.#byBlock.get(block);
  }

  /** Forgets a block that is about to be written over. Blocks that follow it are not found any more. */
  forget(block: number): void {
    const node = this.#byBlock.get(block);
    if (node === undefined) return;
    this.#byBlock.delete(block);
    const same = this.#byHash.get(node.hash)!.filter((other) => other !== node);
    if (same.length === 0) this.#byHash.delete(node.hash);
    else this.#byHash.set(node.hash, same);
  }
}
