/** A prompt from standard input: the whole of it, as UTF-8. */
import { UsageError } from "./usage.js";

/** How long a pipe may say nothing before a person is told what is waited for. */
const patienceMs = 2000;

/** The text on standard input, however long it takes to come; undefined where it is empty, or, unless `insist`, a terminal. */
export async function readStandardInput(insist: boolean): Promise<string | undefined> {
  const { stdin } = process;
  if (stdin.isTTY && !insist) return undefined;
  const chunks: Buffer[] = [];
  const notice = setTimeout(() => {
    process.stderr.write("waiting for the prompt on standard input; a prompt can be given as an argument too\n");
  }, patienceMs);
  try {
    await new Promise<void>((resolve, reject) => {
      stdin.on("data", (chunk: Buffer) => {
        clearTimeout(notice);
        chunks.push(chunk);
      });
      stdin.once("end", resolve);
      stdin.once("error", (error: NodeJS.ErrnoException) => {
        // A closed standard input is no prompt.
        if (error.code === "EAGAIN" || error.code === "EBADF" || error.code === "EISDIR") resolve();
        else reject(error);
      });
    });
  } finally {
    clearTimeout(notice);
    stdin.removeAllListeners("data");
    stdin.pause();
    stdin.unref?.();
  }
  return chunks.length === 0 ? undefined : decodeUtf8(Buffer.concat(chunks), "the prompt");
}

/** Bytes of standard input as text; throws, saying what they are, where they are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array, what: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new UsageError(`${what} on standard input is not UTF-8`, cause);
  }
}
