/** A folder of Node's file system as what models are kept in: whole files under their own names, unfinished ones end in .part. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rename, rm, rmdir, stat, statfs, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { InsituError } from "../base/error.js";
import type { ReadableFile } from "../base/platform.js";
import { type ChecksumKind, type ModelStore, type PartialFile, StorageFull } from "#insitu/hub/model-store.js";
import { nodePlatform } from "./node.js";

/** Where models are kept where nobody says: INSITU_CACHE, or .cache/insitu in the home folder. */
export const keptFolder = (): string => process.env["INSITU_CACHE"] ?? join(homedir(), ".cache", "insitu");

/** Works that are under way in this process, by store and name. */
const underWay = new Map<string, Promise<unknown>>();

/** A folder as a store; it is made with the first file. */
export const folderStore = (folder: string): ModelStore => ({
  kind: "folder",
  place: folder,
  files: (below) => filesBelow(folder, below),
  async open(path): Promise<ReadableFile | undefined> {
    const file = join(folder, path);
    return (await nodePlatform.exists(file)) ? nodePlatform.open(file) : undefined;
  },
  async write(path, text) {
    const file = join(folder, path);
    await makeFolder(file);
    await writeFile(file, text).catch((error: unknown) => notWritten(file, error));
  },
  async partial(path) {
    const file = join(folder, path);
    await makeFolder(file);
    return new FolderFile(file, (await stat(`${file}.part`).catch(() => undefined))?.size ?? 0);
  },
  async remove(path) {
    const own = join(folder, path);
    await rm(own, { recursive: true });
    // What held nothing else goes too.
    await rmdir(dirname(own)).catch(() => undefined);
  },
  async exclusive(name, signal, work) {
    const key = `${folder}\0${name}`;
    while (underWay.has(key)) await underWay.get(key)!.catch(() => undefined);
    signal?.throwIfAborted();
    const working = work();
    underWay.set(key, working);
    return working.finally(() => underWay.delete(key));
  },
  async freeBytes() {
    for (let path = folder; ; path = dirname(path)) {
      const told = await statfs(path).catch(() => undefined);
      if (told !== undefined) return told.bavail * told.bsize;
      if (dirname(path) === path) return undefined;
    }
  },
  persist: async () => true,
});

const makeFolder = async (file: string): Promise<void> => {
  await mkdir(dirname(file), { recursive: true }).catch((error: unknown) => notWritten(dirname(file), error));
};

async function filesBelow(folder: string, below = ""): Promise<ReadonlyMap<string, number>> {
  const entries = await readdir(join(folder, below), { recursive: true, withFileTypes: true }).catch(() => []);
  const files = new Map<string, number>();
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const size = (await stat(path).catch(() => undefined))?.size ?? 0;
    files.set(
      path
        .slice(folder.length)
        .replace(/^[\\/]+/, "")
        .replaceAll("\\", "/"),
      size,
    );
  }
  return files;
}

/** A file that is being fetched into a folder. */
class FolderFile implements PartialFile {
  size: number;
  readonly #path: string;
  #handle: FileHandle | undefined;

  constructor(path: string, size: number) {
    this.#path = path;
    this.size = size;
  }

  get #part(): string {
    return `${this.#path}.part`;
  }

  async restart(): Promise<void> {
    await this.close();
    await rm(this.#part, { force: true });
    this.size = 0;
  }

  async append(bytes: Uint8Array): Promise<void> {
    try {
      this.#handle ??= await open(this.#part, this.size > 0 ? "r+" : "w");
      // A disk that runs full may take a part of what it is given.
      for (let written = 0; written < bytes.length;) {
        const left = bytes.length - written;
        const { bytesWritten } = await this.#handle.write(bytes, written, left, this.size + written);
        written += bytesWritten;
      }
    } catch (error) {
      // A disk that is full stays full: nothing half-written is left on it.
      if (isFull(error)) await this.discard();
      notWritten(this.#path, error);
    }
    this.size += bytes.length;
  }

  async digest(kind: ChecksumKind): Promise<string> {
    const hash = createHash(kind === "git" ? "sha1" : "sha256");
    if (kind === "git") hash.update(`blob ${this.size}\0`);
    if (this.size > 0) for await (const chunk of createReadStream(this.#part)) hash.update(chunk as Buffer);
    return hash.digest("hex");
  }

  async finish(): Promise<void> {
    await this.close();
    if (this.size === 0) await writeFile(this.#part, "").catch((error: unknown) => notWritten(this.#path, error));
    await rename(this.#part, this.#path).catch((error: unknown) => notWritten(this.#path, error));
  }

  async close(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.close();
  }

  async discard(): Promise<void> {
    await this.close();
    await rm(this.#part, { force: true });
  }
}

const isFull = (error: unknown): boolean =>
  error instanceof Error && "code" in error && (error.code === "ENOSPC" || error.code === "EDQUOT");

/** Throws: a path cannot be written, and why. */
function notWritten(path: string, error: unknown): never {
  if (isFull(error)) throw new StorageFull(path, "the disk is full", error);
  const why = error instanceof Error ? error.message : String(error);
  throw new InsituError("download", `${path} cannot be written: ${why}`, { cause: error });
}
