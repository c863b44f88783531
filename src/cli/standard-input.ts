/** A prompt from standard input: the whole of it, as UTF-8. */
import { InsituError } from "../base/error.js";

/** How long a prompt that was not asked for may take to begin. */
const patienceMs = 2000;

/** The text on standard input; undefined where it is a terminal, is empty, or, unless `insist`, does not begin in time. */
export async function readStandardInput(insist: boolean): Promise<string | undefined> {
  const { stdin } = process;
  if (stdin.isTTY && !insist) return undefined;
  const chunks: Buffer[] = [];
  await new Promise<void>((resolve, reject) => {
    const timer = insist ? undefined : setTimeout(resolve, patienceMs);
    stdin.on("data", (chunk: Buffer) => {
      clearTimeout(timer);
      chunks.push(chunk);
    });
    stdin.once("end", () => {
      clearTimeout(timer);
      resolve();
    });
    stdin.once("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      // A closed standard input is no prompt.
      if (error.code === "EAGAIN" || error.code === "EBADF" || error.code === "EISDIR") resolve();
      else reject(error);
    });
  });
  stdin.removeAllListeners("data");
  stdin.pause();
  stdin.unref?.();
  return chunks.length === 0 ? undefined : decodeUtf8(Buffer.concat(chunks), "the prompt");
}

/** Bytes of standard input as text; throws, saying what they are, where they are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array, what: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new InsituError("invalid-argument", `${what} on standard input is not UTF-8`, { cause });
  }
}
