/** Names that a server gives: to answers, items, calls. */

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** A name that nobody guesses and that is not given twice. */
export function newId(prefix: string, length = 24): string {
  const bytes = crypto.getRandomValues(new Uint8Array(length));
  return prefix + Array.from(bytes, (byte) => letters[byte % letters.length]).join("");
}

/** Seconds since 1970, as answers say when they were made. */
export const nowSeconds = (): number => Math.floor(Date.now() / 1000);
