/** One file from a URL: resumed where it was cut off, checked, and under its own name only when it is whole. */
import { InsituError } from "#insitu/base/error.js";
import type { ChecksumKind, PartialFile } from "./model-store.js";

/** A file to be fetched. */
export interface RemoteFile {
  readonly url: string;
  readonly size: number;
  /** What its contents must give: SHA-256 for large files, git's own SHA-1 for the others. */
  readonly checksum: { readonly kind: ChecksumKind; readonly value: string };
}

/** A file of which nobody tells size or contents: what the server's answers say of it counts. */
interface PlainFile {
  readonly url: string;
  readonly size?: undefined;
  readonly checksum?: undefined;
  /** The server's mark of the version that the bytes which are there are of. */
  readonly version?: string | undefined;
}

/** How files are fetched. */
interface FetchOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Told how many bytes of the file there are by now. */
  readonly onBytes?: (bytes: number) => void;
  /** How often a connection that was cut off is taken up again. */
  readonly retries?: number;
  /** Told how long a file is, and the server's mark of its version, before its first byte is kept. */
  readonly onAnswer?: (size: number | undefined, version: string | undefined) => Promise<void>;
}

/** Fetches a file. What was fetched of it before is not fetched again. */
export async function downloadFile(
  file: RemoteFile | PlainFile,
  part: PartialFile,
  options: FetchOptions = {},
): Promise<void> {
  try {
    if (file.size !== undefined && part.size > file.size) await part.restart();
    // Bytes of a version that nobody knows are worth nothing.
    if (file.size === undefined && file.version === undefined) await part.restart();
    await fetchAll(file, part, options);
    const found = file.checksum && (await part.digest(file.checksum.kind));
    if (found !== file.checksum?.value) {
      await part.discard();
      throw new InsituError(
        "download",
        `${file.url} is damaged: its checksum is ${found}, not ${file.checksum!.value}; fetch it again`,
      );
    }
    await part.finish();
  } finally {
    await part.close();
  }
}

/** How long to wait before a connection is taken up again; twice as long each time after that. */
const firstPauseMs = 100;

async function fetchAll(file: RemoteFile | PlainFile, part: PartialFile, options: FetchOptions): Promise<void> {
  const { retries = 5, signal } = options;
  const known: Known = { size: file.size, version: file.size === undefined ? file.version : undefined };
  let most = part.size;
  for (let attempt = 0; ; attempt++) {
    try {
      return await fetchRest(file.url, known, part, options);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof InsituError) throw error;
      // A connection that brought more than any before it may be taken up as often as it is cut.
      if (part.size > most) attempt = 0;
      most = Math.max(most, part.size);
      if (attempt >= retries || retries === 0)
        throw new InsituError("download", `${file.url} cannot be fetched: ${reasonOf(error)}`, { cause: error });
      await pause(firstPauseMs * 2 ** attempt, signal);
    }
  }
}

/** Waits; throws at once where the signal comes. */
function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, milliseconds);
    function done(): void {
      signal?.removeEventListener("abort", abort);
      resolve();
    }
    function abort(): void {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    }
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** What is known of a file by now. */
interface Known {
  size: number | undefined;
  /** The version that a part must be of, where there is no checksum to tell. */
  version: string | undefined;
}

/** Appends what is missing. Throws where the connection ends early. */
async function fetchRest(url: string, known: Known, part: PartialFile, options: FetchOptions): Promise<void> {
  const from = part.size;
  if (from === known.size && from > 0) return;
  const range: Record<string, string> = from > 0 ? { Range: `bytes=${from}-` } : {};
  // A part of another version would not fit what is there: the server sends everything then.
  if (from > 0 && known.version !== undefined) range["If-Range"] = known.version;
  const response = await fetch(url, { headers: { ...options.headers, ...range }, signal: options.signal ?? null });
  if (!response.ok) {
    await response.body?.cancel();
    refuseAnswer(url, response);
  }
  if (isPage(url, response)) {
    await response.body?.cancel();
    throw new InsituError(
      "download",
      `${url} is a web page, not the file: a login, a proxy or another server stands in between`,
    );
  }
  // Another answer than a part has everything.
  if (response.status !== 206 && from > 0) await part.restart();
  const told = sizeOf(response, part.size);
  if (options.onAnswer !== undefined) {
    known.size = told;
    known.version = versionOf(response);
    await options.onAnswer(known.size, known.version);
  }
  const reader = response.body?.getReader();
  try {
    for (let next = await reader?.read(); next !== undefined && !next.done; next = await reader!.read()) {
      if (known.size !== undefined && part.size + next.value.length > known.size)
        throw new InsituError("download", `${url} sends more than the ${known.size} bytes it should have`);
      await part.append(next.value);
      options.onBytes?.(part.size);
    }
  } finally {
    await reader?.cancel().catch(() => undefined);
  }
  if (known.size !== undefined && part.size < known.size)
    throw new Error(`the connection ended after ${part.size} of ${known.size} bytes`);
}

/** How long a file is by an answer that has it from some byte on; undefined where it was compressed on the way, or nobody tells. */
function sizeOf({ headers, status, type }: Response, from: number): number | undefined {
  const whole = /\/(\d+)$/.exec(headers.get("content-range") ?? "")?.[1];
  if (status === 206 && whole !== undefined) return Number(whole);
  const length = headers.get("content-length");
  // Other origins do not tell that they compressed.
  return length === null || headers.get("content-encoding") !== null || type === "cors"
    ? undefined
    : from + Number(length);
}

/** A mark that parts may be asked for with: a weak one does not promise the same bytes. */
function versionOf({ headers }: Response): string | undefined {
  const tag = headers.get("etag");
  return tag !== null && !tag.startsWith("W/") ? tag : (headers.get("last-modified") ?? undefined);
}

/** Throws for an answer that is an error: the server's own trouble may pass, what it refuses stays refused. */
function refuseAnswer(url: string, { status, statusText }: Response): never {
  const what = `answered ${status} ${statusText}`.trimEnd();
  if (status >= 500 || status === 429) throw new Error(`the server ${what}`);
  const leave = status === 401 || status === 403 ? ": set HF_TOKEN to a token that can read it" : "";
  throw new InsituError("download", `${url} ${what}${leave}`);
}

/** True for an answer that says it is a page where the file is none. */
export const isPage = (url: string, response: Response): boolean =>
  response.headers.get("content-type")?.startsWith("text/html") === true && !/\.html?$/i.test(new URL(url).pathname);

/** The innermost reason: fetch hides it in a cause. */
export function reasonOf(error: unknown): string {
  let inner = error;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  return inner instanceof Error ? inner.message : String(inner);
}
