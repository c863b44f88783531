/** UTF-8 to strings and back, strictly; also from shared memory. */

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

/** Chromium's TextDecoder refuses shared memory. */
const unshared = (bytes: Uint8Array): Uint8Array => (bytes.buffer instanceof ArrayBuffer ? bytes : bytes.slice());

/** The text of a range, or undefined where it is not valid UTF-8 or too long for a string. Never throws: that would be slow. */
export function decodeUtf8(bytes: Uint8Array, start = 0, end: number = bytes.length): string | undefined {
  if (end - start <= 12) {
    // Short and ASCII is the common case; a view and a decoder's call would cost more than this.
    let text = "";
    let at = start;
    for (; at < end && bytes[at] < 0x80; at++) text += ascii[bytes[at]];
    if (at === end) return text;
  }
  const range = bytes.subarray(start, end);
  let text: string;
  try {
    text = decodeUtf8Lossy(range);
  } catch {
    return undefined;
  }
  return text.includes("\ufffd") && !isUtf8(range) ? undefined : text;
}

const ascii: readonly string[] = Array.from({ length: 0x80 }, (_, code) => String.fromCharCode(code));

/** True if the bytes are valid UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
function isUtf8(bytes: Uint8Array): boolean {
  for (let i = 0; i < bytes.length;) {
    const first = bytes[i++];
    if (first < 0x80) continue;
    const more = first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if (more === 0 || i + more > bytes.length) return false;
    const second = bytes[i];
    const least = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
    const most = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
    if (second < least || second > most) return false;
    for (let k = 1; k < more; k++) if ((bytes[i + k] & 0xc0) !== 0x80) return false;
    i += more;
  }
  return true;
}

/** The text with a replacement character for everything that is not UTF-8. */
export const decodeUtf8Lossy = (bytes: Uint8Array): string => decoder.decode(unshared(bytes));

/** The UTF-8 bytes of a text. */
export const encodeUtf8 = (text: string): Uint8Array => encoder.encode(text);
