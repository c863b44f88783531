/** One file from a URL to a path: resumed where it was cut off, checked, and under its own name only when it is whole. */
import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { InsituError } from "../base/error.js";

/** A file to be fetched. */
export interface RemoteFile {
  readonly url: string;
  readonly size: number;
  /** What its contents must give: SHA-256 for large files, git's own SHA-1 for the others. */
  readonly checksum: { readonly kind: "sha256" | "git"; readonly value: string };
}

/** How files are fetched. */
interface FetchOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Told how many bytes of the file there are by now. */
  readonly onBytes?: (bytes: number) => void;
  /** How often a connection that was cut off is taken up again. */
  readonly retries?: number;
}

/** Fetches a file. What was fetched of it before is kept beside it, in a file that ends in .part, and not fetched again. */
export async function downloadFile(file: RemoteFile, path: string, options: FetchOptions = {}): Promise<void> {
  const part = `${path}.part`;
  await mkdir(dirname(path), { recursive: true }).catch((error: unknown) => notWritten(dirname(path), error));
  const { retries = 5, signal } = options;
  let most = await sizeOf(part);
  for (let attempt = 0; ; attempt++) {
    try {
      await fetchRest(file, part, options);
      break;
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof InsituError) throw error;
      // A disk that is full stays full: nothing half-written is left on it.
      if (isFull(error)) await rm(part, { force: true });
      if (isOfDisk(error)) notWritten(path, error);
      // A connection that brought more than any before it may be taken up as often as it is cut.
      const has = await sizeOf(part);
      if (has > most) attempt = 0;
      most = Math.max(most, has);
      if (attempt >= retries || retries === 0)
        throw new InsituError("download", `${file.url} cannot be fetched: ${reasonOf(error)}`, { cause: error });
      await delay(firstPauseMs * 2 ** attempt, undefined, { signal });
    }
  }
  const found = await checksumOf(part, file);
  if (found !== file.checksum.value) {
    await rm(part, { force: true });
    throw new InsituError(
      "download",
      `${file.url} is damaged: its checksum is ${found}, not ${file.checksum.value}; fetch it again`,
    );
  }
  await rename(part, path).catch((error: unknown) => notWritten(path, error));
}

/** How long to wait before a connection is taken up again; twice as long each time after that. */
const firstPauseMs = 100;

const sizeOf = async (path: string): Promise<number> => (await stat(path).catch(() => undefined))?.size ?? 0;

/** Throws: a path cannot be written, and why. */
export function notWritten(path: string, error: unknown): never {
  const why = isFull(error) ? "the disk is full" : reasonOf(error);
  throw new InsituError("download", `${path} cannot be written: ${why}`, { cause: error });
}

/** Appends what is missing to the partial file. Throws where the connection ends early. */
async function fetchRest(file: RemoteFile, part: string, options: FetchOptions): Promise<void> {
  const had = await sizeOf(part);
  let at = had > file.size ? 0 : had;
  if (at === file.size && at > 0) return;
  const range: Record<string, string> = at > 0 ? { Range: `bytes=${at}-` } : {};
  const response = await fetch(file.url, { headers: { ...options.headers, ...range }, signal: options.signal ?? null });
  if (!response.ok) {
    await response.body?.cancel();
    const { status, statusText } = response;
    const what = `answered ${status} ${statusText}`.trimEnd();
    // The server's own trouble may pass.
    if (status >= 500 || status === 429) throw new Error(`the server ${what}`);
    const leave = status === 401 || status === 403 ? ": the hub wants a token that may read it, in HF_TOKEN" : "";
    throw new InsituError("download", `${file.url} ${what}${leave}`);
  }
  if (response.status !== 206) at = 0; // the server sends everything
  const handle = await open(part, at > 0 ? "r+" : "w");
  try {
    if (response.body !== null)
      for await (const chunk of response.body) {
        if (at + chunk.length > file.size)
          throw new InsituError("download", `${file.url} sends more than the ${file.size} bytes it should have`);
        // A disk that runs full may take a part of what it is given.
        for (let written = 0; written < chunk.length;) {
          const { bytesWritten } = await handle.write(chunk, written, chunk.length - written, at + written);
          written += bytesWritten;
        }
        at += chunk.length;
        options.onBytes?.(at);
      }
  } finally {
    await handle.close();
  }
  if (at < file.size) throw new Error(`the connection ended after ${at} of ${file.size} bytes`);
}

async function checksumOf(path: string, { size, checksum }: RemoteFile): Promise<string> {
  const hash: Hash = createHash(checksum.kind === "git" ? "sha1" : "sha256");
  if (checksum.kind === "git") hash.update(`blob ${size}\0`);
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

const isFull = (error: unknown): boolean =>
  error instanceof Error && "code" in error && (error.code === "ENOSPC" || error.code === "EDQUOT");

/** True for what the file system says, not the network: its errors name the call that failed and a path. */
const isOfDisk = (error: unknown): boolean =>
  isFull(error) || (error instanceof Error && "syscall" in error && "path" in error);

/** The innermost reason: fetch hides it in a cause. */
function reasonOf(error: unknown): string {
  let inner = error;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  return inner instanceof Error ? inner.message : String(inner);
}
