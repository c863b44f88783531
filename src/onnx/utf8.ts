/** UTF-8 to strings and back, strictly; also from shared memory. */

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

/** Chromium's TextDecoder refuses shared memory. */
const unshared = (bytes: Uint8Array): Uint8Array => (bytes.buffer instanceof ArrayBuffer ? bytes : bytes.slice());

/** The text, or undefined where the bytes are not valid UTF-8 or too many for a string. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  if (bytes.length <= 24) {
    let text = "";
    let i = 0;
    for (; i < bytes.length && bytes[i] < 0x80; i++) text += String.fromCharCode(bytes[i]);
    if (i === bytes.length) return text;
  }
  try {
    return strict.decode(unshared(bytes));
  } catch {
    return undefined;
  }
}

/** The text with a replacement character for everything that is not UTF-8. */
export const decodeUtf8Lossy = (bytes: Uint8Array): string => lenient.decode(unshared(bytes));

/** The UTF-8 bytes of a text. */
export const encodeUtf8 = (text: string): Uint8Array => encoder.encode(text);
