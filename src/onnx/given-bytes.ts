/** Bytes as callers hand them in: a view of any class, or a whole buffer. */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";

/** The bytes of what a caller gave, without a copy. Throws where it is nothing of the kind, and where its buffer was transferred away. */
export function givenBytes(what: string, given: unknown): Uint8Array {
  const kind = Object.prototype.toString.call(given);
  try {
    if (ArrayBuffer.isView(given)) return new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
    if (kind === "[object ArrayBuffer]" || kind === "[object SharedArrayBuffer]")
      return new Uint8Array(given as ArrayBufferLike);
  } catch (cause) {
    throw new InsituError("invalid-argument", `${what}: its buffer was detached or transferred`, { cause });
  }
  throw new InsituError("invalid-argument", `${what}, got ${valueText(given)}`);
}
