/** What a model on the hub consists of. A listing that goes on without end or contradicts itself is refused. */
import { InsituError } from "#insitu/base/error.js";
import { isPage, reasonOf, type RemoteFile } from "./download-file.js";

/** Pages of a listing, files in it, and bytes of one page. */
const mostPages = 200;
const mostFiles = 100_000;
const mostPageBytes = 32 * 2 ** 20;

/** Where a model is listed. */
interface ListingOptions {
  readonly name: string;
  readonly revision: string;
  readonly hubUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal | undefined;
}

/** The files of a model by their paths. */
export async function listModel(options: ListingOptions): Promise<Map<string, RemoteFile>> {
  const { name, revision, hubUrl, headers, signal } = options;
  const which = revision === "main" ? `"${name}"` : `"${name}" at ${revision}`;
  const files = new Map<string, RemoteFile>();
  const { origin, pathname: below } = new URL(hubUrl);
  const base = `${origin}${below.replace(/\/$/, "")}`;
  let listed = 0;
  let next: string | undefined = `${base}/api/models/${name}/tree/${encodeURIComponent(revision)}?recursive=true`;
  try {
    for (let pages = 0; next !== undefined; pages++) {
      if (pages === mostPages) unusable(which, `it has more than ${mostPages} pages`);
      const response: Response = await fetch(next, { headers, signal: signal ?? null });
      if (!response.ok) {
        await response.body?.cancel();
        throw new InsituError("download", refusalText(which, response.status));
      }
      for (const entry of await readPage(which, next, response)) {
        if (++listed > mostFiles) unusable(which, `it has more than ${mostFiles} entries`);
        const { type, path } = entry;
        if (type !== "file" || !isPlainPath(path)) continue;
        if (files.has(path)) unusable(which, `it has "${path}" twice`);
        const url = `${base}/${name}/resolve/${encodeURIComponent(revision)}/${path.split("/").map(encodeURIComponent).join("/")}`;
        files.set(path, { url, ...contentsOf(which, path, entry) });
      }
      next = nextOf(response, origin);
    }
  } catch (cause) {
    signal?.throwIfAborted();
    if (cause instanceof InsituError) throw cause;
    throw new InsituError("download", `${notAsked(which)}${reasonOf(cause)}${wayOut}`, { cause });
  }
  return files;
}

/** Throws: a listing cannot be believed. */
function unusable(which: string, why: string): never {
  throw new InsituError("download", `the hub's listing of ${which} cannot be used: ${why}`);
}

/** What one entry of a listing may say. */
interface Entry {
  readonly type?: unknown;
  readonly path?: unknown;
  readonly size?: unknown;
  readonly oid?: unknown;
  readonly lfs?: { readonly oid?: unknown; readonly size?: unknown } | null;
}

async function readPage(which: string, url: string, response: Response): Promise<readonly Entry[]> {
  if (isPage(url, response)) {
    await response.body?.cancel();
    unusable(which, "it is a web page: a login, a proxy or another server stands in between");
  }
  const pieces: string[] = [];
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let bytes = 0;
  try {
    for (let next = await reader?.read(); next !== undefined && !next.done; next = await reader!.read()) {
      bytes += next.value.length;
      if (bytes > mostPageBytes) unusable(which, `a page of it has more than ${mostPageBytes} bytes`);
      pieces.push(decoder.decode(next.value, { stream: true }));
    }
  } finally {
    await reader?.cancel().catch(() => undefined);
  }
  let list: unknown;
  try {
    list = JSON.parse(pieces.join(""));
  } catch (cause) {
    throw new InsituError("download", `the hub's listing of ${which} cannot be used: it is not JSON`, { cause });
  }
  if (!Array.isArray(list) || !list.every((entry) => typeof entry === "object" && entry !== null))
    unusable(which, "it is no list of files");
  return list as Entry[];
}

/** The next page. Wherever it is said to be: the token that may read the model goes to its hub alone. */
function nextOf(response: Response, origin: string): string | undefined {
  const link = /<([^>]+)>\s*;\s*rel="?next"?/.exec(response.headers.get("link") ?? "")?.[1];
  if (link === undefined) return undefined;
  const { pathname, search } = new URL(link, origin);
  return `${origin}${pathname}${search}`;
}

/** True for a path below the folder; what is none is no business of ours. */
function isPlainPath(path: unknown): path is string {
  if (typeof path !== "string" || /[\\:]|\p{Cc}/u.test(path)) return false;
  return path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

/** How long a file is, and what its contents must give. */
function contentsOf(which: string, path: string, entry: Entry): Pick<RemoteFile, "size" | "checksum"> {
  const { lfs } = entry;
  const hasLfs = lfs !== undefined && lfs !== null;
  const size = hasLfs ? lfs.size : entry.size;
  const value = hasLfs ? lfs.oid : entry.oid;
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
    unusable(which, `the size of "${path}" is ${String(size)}`);
  if (typeof value !== "string" || value === "") unusable(which, `"${path}" has no checksum`);
  return { size, checksum: { kind: hasLfs ? "sha256" : "git", value } };
}

const notAsked = (which: string): string => `${which} is no folder, and the hub cannot be reached: `;
const wayOut = "; check the network, or name a mirror (HF_ENDPOINT)";

function refusalText(which: string, status: number): string {
  if (status === 404) return `${which} is neither a folder nor a model on the hub (404)`;
  if (status === 401 || status === 403)
    return `${which} is no folder, and the hub shows no such model without permission (${status}): check the name, or set HF_TOKEN to a token that can read it`;
  return `${notAsked(which)}it answered ${status}${wayOut}`;
}
