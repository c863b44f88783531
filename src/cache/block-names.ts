/**
 * Names of full blocks that say all that their bytes depend on: a chain of SHA-256 over what the model is, the salt, and all tokens up to the
 * block's end. Two processes that agree on them may share blocks.
 */

/** The names, as hexadecimal digits, of the full blocks that tokens fill. */
export async function blockNames(
  fingerprint: string,
  salt: string,
  tokens: readonly number[],
  blockSize: number,
): Promise<string[]> {
  const names: string[] = [];
  let before = await digest(new TextEncoder().encode(JSON.stringify([fingerprint, salt, blockSize])));
  for (let at = 0; at + blockSize <= tokens.length; at += blockSize) {
    const bytes = new Uint8Array(before.length + 4 * blockSize);
    bytes.set(before);
    const words = new DataView(bytes.buffer, before.length);
    for (let index = 0; index < blockSize; index++) words.setUint32(4 * index, tokens[at + index], true);
    before = await digest(bytes);
    names.push(Array.from(before, (byte) => byte.toString(16).padStart(2, "0")).join(""));
  }
  return names;
}

const digest = async (bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> =>
  new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
