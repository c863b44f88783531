/**
 * Names of full blocks that say all that their bytes depend on: a chain of SHA-256 over what the model is, the salt, and all tokens up to the
 * block's end. Two processes that agree on them may share blocks.
 */
import { sha256 } from "#insitu/base/sha256.js";

/** A full block by its name. The names are digests in hexadecimal digits. */
export interface NamedBlock {
  readonly name: string;
  /** The name of the block before it; for the first one, what stands for the model and the salt. */
  readonly parent: string;
  readonly tokens: readonly number[];
}

/** The full blocks that tokens fill. */
export function nameBlocks(
  fingerprint: string,
  salt: string,
  tokens: readonly number[],
  blockSize: number,
): NamedBlock[] {
  const blocks: NamedBlock[] = [];
  let before = sha256(new TextEncoder().encode(JSON.stringify([fingerprint, salt, blockSize])));
  for (let at = 0; at + blockSize <= tokens.length; at += blockSize) {
    const own = tokens.slice(at, at + blockSize);
    const bytes = new Uint8Array(before.length + 4 * blockSize);
    bytes.set(before);
    const words = new DataView(bytes.buffer, before.length);
    own.forEach((token, index) => words.setUint32(4 * index, token, true));
    const parent = hex(before);
    before = sha256(bytes);
    blocks.push({ name: hex(before), parent, tokens: own });
  }
  return blocks;
}

const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
