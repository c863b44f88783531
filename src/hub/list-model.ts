/** What a model on the hub consists of. A listing that goes on without end or contradicts itself is refused. */
import { InsituError } from "../base/error.js";
import type { RemoteFile } from "./download-file.js";

/** Pages of a listing, files in it, and bytes of one page. */
const mostPages = 200;
const mostFiles = 100_000;
const mostPageBytes = 32 * 2 ** 20;

/** Where a model is listed. */
interface ListingOptions {
  readonly name: string;
  readonly revision: string;
  readonly hubUrl: string;
  readonly accessToken: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The files of a model by their paths. */
export async function listModel(options: ListingOptions): Promise<Map<string, RemoteFile>> {
  const { name, revision, hubUrl, accessToken, signal } = options;
  const { listFiles } = await import("@huggingface/hub").catch((cause: unknown) => {
    throw new InsituError(
      "download",
      `"${name}" is no folder here; to fetch it from the hub: npm install @huggingface/hub`,
      { cause },
    );
  });
  const which = revision === "main" ? `"${name}"` : `"${name}" at ${revision}`;
  const files = new Map<string, RemoteFile>();
  let listed = 0;
  try {
    const access = accessToken === undefined ? {} : { accessToken };
    const fetch = boundedFetch(which, hubUrl, signal);
    for await (const entry of listFiles({ repo: name, revision, recursive: true, hubUrl, fetch, ...access })) {
      if (++listed > mostFiles) unusable(which, `it has more than ${mostFiles} entries`);
      const { type, path } = entry;
      if (type !== "file" || !isPlainPath(path)) continue;
      if (files.has(path)) unusable(which, `it has "${path}" twice`);
      const url = `${hubUrl}/${name}/resolve/${encodeURIComponent(revision)}/${path.split("/").map(encodeURIComponent).join("/")}`;
      files.set(path, { url, ...contentsOf(which, entry) });
    }
  } catch (cause) {
    signal?.throwIfAborted();
    if (cause instanceof InsituError) throw cause;
    const status = cause instanceof Error && "statusCode" in cause ? cause.statusCode : undefined;
    throw new InsituError("download", refusalText(which, status, cause), { cause });
  }
  return files;
}

/** Throws: a listing cannot be believed. */
function unusable(which: string, why: string): never {
  throw new InsituError("download", `the hub's listing of ${which} cannot be used: ${why}`);
}

/** True for a path below the folder; what is none is no business of ours. */
function isPlainPath(path: unknown): path is string {
  if (typeof path !== "string" || /[\\:]|\p{Cc}/u.test(path)) return false;
  return path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

/** How long a file is, and what its contents must give. */
function contentsOf(
  which: string,
  entry: {
    readonly path: string;
    readonly size: number;
    readonly oid?: string;
    readonly lfs?: { readonly oid: string; readonly size: number };
  },
): Pick<RemoteFile, "size" | "checksum"> {
  const size: unknown = entry.lfs?.size ?? entry.size;
  const value: unknown = entry.lfs?.oid ?? entry.oid;
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
    unusable(which, `the size of "${entry.path}" is ${String(size)}`);
  if (typeof value !== "string" || value === "") unusable(which, `"${entry.path}" has no checksum`);
  return { size, checksum: { kind: entry.lfs ? "sha256" : "git", value } };
}

/** Fetches pages of one hub, so many and so long at most. */
function boundedFetch(which: string, hubUrl: string, signal: AbortSignal | undefined): typeof fetch {
  let pages = 0;
  const { origin } = new URL(hubUrl);
  return async (input, init) => {
    if (++pages > mostPages) unusable(which, `it has more than ${mostPages} pages`);
    // Wherever a page says that the next one is: the token that may read the model goes to its hub alone.
    const { pathname, search } = new URL(input instanceof Request ? input.url : String(input));
    const response = await fetch(new URL(pathname + search, origin), { ...init, signal: signal ?? null });
    if (response.body === null) return response;
    let bytes = 0;
    const counted = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.length;
        if (bytes > mostPageBytes) unusable(which, `a page of it has more than ${mostPageBytes} bytes`);
        controller.enqueue(chunk);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(counted), { status, statusText, headers });
  };
}

function refusalText(which: string, status: unknown, cause: unknown): string {
  if (status === 404) return `${which} is neither a folder nor a model that the hub knows (404)`;
  if (status === 401 || status === 403)
    return `${which} is no folder, and the hub shows no such model without leave (${status}): check the name, or set HF_TOKEN to a token that may read it`;
  return `${which} is no folder, and the hub cannot be asked for it: ${innermost(cause)}`;
}

function innermost(cause: unknown): string {
  let inner = cause;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  return inner instanceof Error ? inner.message : String(inner);
}
