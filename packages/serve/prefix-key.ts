/** What requests that begin alike have in common, in a word: told with an answer, and sent back by clients so that balancers keep them together. */
import { sha256 } from "#insitu/base/sha256.js";

/** The header, of requests and answers. */
export const prefixHeader = "x-insitu-prefix";

/** Tokens at the beginning that are looked at: what comes after them tells texts apart whose beginnings should meet. */
const lookedAt = 64;

/** The key of a prompt. It says nothing of the tokens to who does not know them, and nothing at all without the salt. */
export function prefixKey(salt: string | undefined, prompt: readonly number[]): string {
  const bytes = sha256(new TextEncoder().encode(JSON.stringify([salt ?? null, prompt.slice(0, lookedAt)])));
  return Array.from(bytes.subarray(0, 12), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What a request says of itself, where it is a word that can be told again. */
export const givenPrefixKey = (header: string | undefined): string | undefined =>
  header !== undefined && /^[\x21-\x7e][\x20-\x7e]{0,199}$/.test(header) ? header : undefined;
