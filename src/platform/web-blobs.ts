/**
 * Bytes by key in an origin's storage: the private file system, or the Cache API where a browser has none that pages can write. Each value is
 * written at once or not at all.
 */

/** Values by key. */
export interface BlobStore {
  readonly kind: "opfs" | "cache";
  get(key: string): Promise<Blob | undefined>;
  put(key: string, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  delete(key: string): Promise<void>;
  /** Every key with its bytes. */
  sizes(): Promise<Map<string, number>>;
}

/** What models lie in, in either storage. */
const name = "insitu-models";

/** The storage of this origin, or why it has none. */
export async function openBlobs(): Promise<BlobStore | string> {
  const { navigator, caches } = globalThis;
  try {
    const root = await navigator.storage.getDirectory();
    if (typeof FileSystemFileHandle.prototype.createWritable === "function")
      return new FileBlobs(await root.getDirectoryHandle(name, { create: true }));
  } catch {
    // No private file system, or none for this page.
  }
  try {
    return new CacheBlobs(await caches.open(name));
  } catch (error) {
    const why = globalThis.isSecureContext === false ? "the page is not secure (https or localhost)" : String(error);
    return `this browser keeps nothing for this page: ${why}`;
  }
}

/** A folder for each part of a key; names hold what file systems take. */
class FileBlobs implements BlobStore {
  readonly kind = "opfs";
  readonly #root: FileSystemDirectoryHandle;

  constructor(root: FileSystemDirectoryHandle) {
    this.#root = root;
  }

  async get(key: string): Promise<Blob | undefined> {
    const [folder, last] = await this.#folderOf(key, false);
    const handle = await folder?.getFileHandle(last).catch(ifAbsent);
    return handle?.getFile();
  }

  async put(key: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const [folder, last] = await this.#folderOf(key, true);
    const handle = await folder!.getFileHandle(last, { create: true });
    const writable = await handle.createWritable();
    try {
      await writable.write(bytes);
      await writable.close();
    } catch (error) {
      await writable.abort().catch(() => undefined);
      await folder!.removeEntry(last).catch(() => undefined);
      throw error;
    }
  }

  async delete(key: string): Promise<void> {
    const parts = key.split("/");
    await this.#remove(this.#root, parts);
  }

  async sizes(): Promise<Map<string, number>> {
    const sizes = new Map<string, number>();
    await this.#walk(this.#root, "", sizes);
    return sizes;
  }

  /** Removes a file, and the folders that held nothing else. */
  async #remove(folder: FileSystemDirectoryHandle, [first, ...rest]: readonly string[]): Promise<void> {
    if (rest.length === 0) return folder.removeEntry(first).catch(ifAbsent);
    const below = await folder.getDirectoryHandle(first).catch(ifAbsent);
    if (below === undefined) return;
    await this.#remove(below, rest);
    // Fails where something is left in it.
    await folder.removeEntry(first).catch(() => undefined);
  }

  async #folderOf(
    key: string,
    create: boolean,
  ): Promise<readonly [folder: FileSystemDirectoryHandle | undefined, last: string]> {
    const parts = key.split("/");
    let folder: FileSystemDirectoryHandle | undefined = this.#root;
    for (const part of parts.slice(0, -1))
      folder = create
        ? await folder!.getDirectoryHandle(part, { create })
        : await folder?.getDirectoryHandle(part).catch(ifAbsent);
    return [folder, parts.at(-1)!];
  }

  async #walk(folder: FileSystemDirectoryHandle, below: string, sizes: Map<string, number>): Promise<void> {
    for await (const [entry, handle] of entriesOf(folder))
      if (handle.kind === "directory")
        await this.#walk(handle as FileSystemDirectoryHandle, `${below}${entry}/`, sizes);
      else sizes.set(below + entry, (await (handle as FileSystemFileHandle).getFile()).size);
  }
}

/** What a folder holds. */
export const entriesOf = (folder: FileSystemDirectoryHandle): AsyncIterable<[string, FileSystemHandle]> =>
  (folder as FileSystemDirectoryHandle & { entries(): AsyncIterable<[string, FileSystemHandle]> }).entries();

/** Undefined in place of what is not there; throws for everything else. */
function ifAbsent(error: unknown): undefined {
  const { name: kind } = error as Error;
  if (kind === "NotFoundError" || kind === "TypeMismatchError") return undefined;
  throw error;
}

/** Responses under URLs that no server has. */
class CacheBlobs implements BlobStore {
  readonly kind = "cache";
  readonly #cache: Cache;

  constructor(cache: Cache) {
    this.#cache = cache;
  }

  async get(key: string): Promise<Blob | undefined> {
    const response = await this.#cache.match(urlOf(key));
    return response?.blob();
  }

  async put(key: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.#cache.put(urlOf(key), new Response(bytes, { headers: { "content-length": String(bytes.length) } }));
  }

  async delete(key: string): Promise<void> {
    await this.#cache.delete(urlOf(key));
  }

  async sizes(): Promise<Map<string, number>> {
    const sizes = new Map<string, number>();
    for (const request of await this.#cache.keys()) {
      const key = decodeURIComponent(request.url.slice(base.length));
      const response = await this.#cache.match(request);
      sizes.set(key, Number(response?.headers.get("content-length") ?? 0));
      await response?.body?.cancel();
    }
    return sizes;
  }
}

const base = "https://insitu.invalid/";
const urlOf = (key: string): string => base + encodeURIComponent(key);
