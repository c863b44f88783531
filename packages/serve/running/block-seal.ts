/**
 * A block's bytes as a store keeps them: [head | bytes | proof]. The head says the version, the block before it and the tokens; the proof is a
 * SHA-256 of all that, or an HMAC of it where there is a secret. What differs in any bit from what is expected is refused.
 */
import { InsituError } from "#insitu/base/error.js";
import type { NamedBlock } from "./block-names.js";

/** "insb" */
const magic = 0x62736e69;

/** Changes with the form of values, and with what their bytes mean. */
const version = 1;

const proofBytes = 32;

/** Bytes of a secret below which it can be guessed. */
const leastSecretBytes = 16;

/** Seals blocks, and opens them. Two that have the same secret, or none, open each other's. */
export class BlockSeal {
  readonly #key: Promise<CryptoKey> | undefined;

  constructor(secret?: Uint8Array) {
    if (secret === undefined) return;
    if (secret.length < leastSecretBytes)
      throw new InsituError(
        "invalid-argument",
        `the secret of a store must have ${leastSecretBytes} bytes or more, got ${secret.length}`,
      );
    const hmac = { name: "HMAC", hash: "SHA-256" };
    this.#key = crypto.subtle.importKey("raw", new Uint8Array(secret), hmac, false, ["sign", "verify"]);
  }

  /** Bytes that a store keeps of a block. */
  sizeOf(block: NamedBlock, byteLength: number): number {
    return this.#head(block, byteLength).length + byteLength + proofBytes;
  }

  /** What a store is to keep of a block. */
  async seal(block: NamedBlock, bytes: Uint8Array): Promise<Uint8Array> {
    const head = this.#head(block, bytes.length);
    const value = new Uint8Array(head.length + bytes.length + proofBytes);
    value.set(head);
    value.set(bytes, head.length);
    const end = value.length - proofBytes;
    const proved = value.subarray(0, end);
    const key = await this.#key;
    const proof = key === undefined ? crypto.subtle.digest("SHA-256", proved) : crypto.subtle.sign("HMAC", key, proved);
    value.set(new Uint8Array(await proof), end);
    return value;
  }

  /** The bytes of a block, of which there must be so many; undefined for a value that is not this block's, or not whole. */
  async open(block: NamedBlock, value: Uint8Array, byteLength: number): Promise<Uint8Array | undefined> {
    const head = this.#head(block, byteLength);
    const end = head.length + byteLength;
    if (value.length !== end + proofBytes || !isEqual(head, value.subarray(0, head.length))) return undefined;
    // The store's bytes may be anybody's memory: these are kept.
    const own = new Uint8Array(value);
    const proved = own.subarray(0, end);
    const proof = own.subarray(end);
    const key = await this.#key;
    const isWhole =
      key === undefined
        ? isEqual(new Uint8Array(await crypto.subtle.digest("SHA-256", proved)), proof)
        : await crypto.subtle.verify("HMAC", key, proof, proved);
    return isWhole ? own.subarray(head.length, end) : undefined;
  }

  #head({ parent, tokens }: NamedBlock, byteLength: number): Uint8Array {
    const words = [magic, version, this.#key === undefined ? 0 : 1, byteLength, tokens.length, ...tokens];
    const head = new Uint8Array(4 * words.length + parent.length / 2);
    const view = new DataView(head.buffer);
    words.forEach((word, at) => view.setUint32(4 * at, word, true));
    for (let at = 0; at < parent.length / 2; at++)
      head[4 * words.length + at] = Number.parseInt(parent.slice(2 * at, 2 * at + 2), 16);
    return head;
  }
}

const isEqual = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, at) => byte === b[at]);
