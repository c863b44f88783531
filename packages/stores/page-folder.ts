/**
 * Blocks of pages in a folder, a file for each, within a number of bytes: those that were used longest ago go first. Several processes may
 * share it: files appear whole, one that is gone is as if it had never been there, and what the others wrote is counted now and then. Folder and files
 * are for their owner alone.
 */
import { constants } from "node:fs";
import { chmod, lstat, mkdir, open, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { checkCount } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import type { PageStore } from "#insitu/base/page-store.js";

const ending = ".page";

/** What a file is called while it is written, and the milliseconds after which it never will be: its process was killed. */
const unfinished = ".part";
const mostMilliseconds = 600_000;

/** Of the bound: what is written before the folder is looked at again, and what is left to others who write as well. */
const lookedAfter = 1 / 32;
const othersShare = 1 / 8;

/** Files that are looked at at a time. */
const mostLooked = 64;

/** A store in a folder, which is made where it is not there. */
export async function openPageFolder(folder: string, mostBytes: number): Promise<PageStore> {
  checkCount("the most bytes of a folder of pages", mostBytes, 1);
  const store = new PageFolder(folder, mostBytes);
  try {
    await makeFolder(resolve(folder), 0o700);
    await keepToOwner(folder);
    await store.look();
  } catch (cause) {
    throw new InsituError("invalid-argument", `the folder of pages "${folder}" cannot be used: ${String(cause)}`, {
      cause,
    });
  }
  await store.makeRoom();
  return store;
}

/** Makes a folder, and those above it, one by one: where a system lets none be made, that is an error and not a wait. */
async function makeFolder(folder: string, mode?: number): Promise<void> {
  const make = (): Promise<void> => mkdir(folder, mode);
  try {
    await make();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" && dirname(folder) !== folder) {
      await makeFolder(dirname(folder));
      await make();
    } else if (!(await stat(folder).catch(() => undefined))?.isDirectory()) throw error;
  }
}

/** A folder of pages that others can read, from before, is closed to them: unless it is somebody else's, or has other things in it. */
async function keepToOwner(folder: string): Promise<void> {
  const { mode, uid } = await stat(folder);
  if ((mode & 0o077) === 0 || uid !== process.getuid?.()) return;
  const names = await readdir(folder);
  if (names.every((name) => name.endsWith(ending) || name.endsWith(unfinished))) await chmod(folder, 0o700);
}

async function dropIfOld(path: string): Promise<void> {
  const known = await lstat(path).catch(() => undefined);
  if (known !== undefined && Date.now() - known.mtimeMs > mostMilliseconds) await rm(path, { force: true });
}

class PageFolder implements PageStore {
  readonly #folder: string;
  readonly #mostBytes: number;
  /** Bytes by name; what was used longest ago comes first. */
  #files = new Map<string, number>();
  #bytes = 0;
  /** Of files that are being written. */
  #coming = 0;
  /** Bytes written since the folder was looked at, and whether others had written meanwhile. */
  #unseen = 0;
  #isShared = false;
  #isLooking = false;
  #written = 0;

  constructor(folder: string, mostBytes: number) {
    this.#folder = folder;
    this.#mostBytes = mostBytes;
  }

  async load(
    names: readonly string[],
    _signal?: AbortSignal,
    mostBytes = this.#mostBytes,
  ): Promise<readonly (Uint8Array | undefined)[]> {
    const gap = names.findIndex((name) => !this.#files.has(name));
    return Promise.all((gap < 0 ? names : names.slice(0, gap)).map((name) => this.#read(name, mostBytes)));
  }

  async save(values: ReadonlyMap<string, Uint8Array>): Promise<void> {
    const fitting = [...values].filter(([, bytes]) => bytes.length <= this.#mostBytes);
    const coming = fitting.reduce((sum, [, bytes]) => sum + bytes.length, 0);
    this.#coming += coming;
    await this.makeRoom();
    // At a time: each takes several turns of the event loop, in which runs may hold the thread.
    const written = await Promise.allSettled(fitting.map(([name, bytes]) => this.#write(name, bytes)));
    this.#coming -= coming;
    this.#unseen += coming;
    written.forEach(({ status }, at) => {
      const [name, bytes] = fitting[at];
      if (status === "fulfilled") this.#note(name, bytes.length);
    });
    if (this.#unseen > this.#mostBytes * lookedAfter) await this.look().catch(() => {});
    // What came may be more than there is room for.
    await this.makeRoom();
    const failed = written.find(({ status }) => status === "rejected") as PromiseRejectedResult | undefined;
    if (failed !== undefined) throw failed.reason;
  }

  async close(): Promise<void> {}

  /** Finds what is in the folder: files that others wrote or dropped, and those that were left unfinished. */
  async look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    this.#unseen = 0;
    try {
      const all = await readdir(this.#folder);
      for (const name of all) if (name.endsWith(unfinished)) await dropIfOld(join(this.#folder, name));
      const found = new Set(all.filter((name) => name.endsWith(ending)).map((name) => name.slice(0, -ending.length)));
      const before = new Set(this.#files.keys());
      const others = [...found].filter((name) => !before.has(name));
      // In the order in which they are known: times have ties.
      const names = [...[...before].filter((name) => found.has(name)), ...others];
      const seen: { name: string; bytes: number; used: number }[] = [];
      for (let at = 0; at < names.length; at += mostLooked)
        seen.push(...(await Promise.all(names.slice(at, at + mostLooked).map((name) => this.#lookAt(name)))));
      this.#isShared ||= this.#written > 0 && others.length > 0;
      // Meanwhile files were dropped, and others written.
      const files = seen.filter(({ name }) => !before.has(name) || this.#files.has(name));
      const since = [...this.#files].filter(([name]) => !before.has(name) && !found.has(name));
      const sorted = files.toSorted((a, b) => a.used - b.used).map(({ name, bytes }) => [name, bytes] as const);
      this.#files = new Map([...sorted, ...since]);
      this.#bytes = [...this.#files.values()].reduce((sum, bytes) => sum + bytes, 0);
    } finally {
      this.#isLooking = false;
    }
  }

  async #lookAt(name: string): Promise<{ name: string; bytes: number; used: number }> {
    const known = await lstat(this.#pathOf(name)).catch(() => undefined);
    return { name, bytes: known?.size ?? 0, used: known?.mtimeMs ?? 0 };
  }

  async #write(name: string, bytes: Uint8Array): Promise<void> {
    const temporary = join(this.#folder, `${name}.${process.pid}.${this.#written++}${unfinished}`);
    const write = (): Promise<void> => writeFile(temporary, bytes, { mode: 0o600 });
    try {
      await write().catch(async (error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
        // Somebody took the folder away.
        await makeFolder(resolve(this.#folder), 0o700);
        await write();
      });
      await rename(temporary, this.#pathOf(name));
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  async #read(name: string, mostBytes: number): Promise<Uint8Array | undefined> {
    const path = this.#pathOf(name);
    const bytes = await readWithin(path, mostBytes).catch(() => undefined);
    if (bytes === undefined) {
      await this.#drop(name);
      return undefined;
    }
    const now = new Date();
    await utimes(path, now, now).catch(() => undefined);
    this.#note(name, bytes.length);
    return bytes;
  }

  /** Has room for what is there and what is coming. */
  async makeRoom(): Promise<void> {
    const most = this.#mostBytes * (this.#isShared ? 1 - othersShare : 1);
    for (const name of this.#files.keys()) {
      if (this.#bytes + this.#coming <= most) return;
      await this.#drop(name);
    }
  }

  /** Notes a file that was used just now. */
  #note(name: string, bytes: number): void {
    this.#bytes += bytes - (this.#files.get(name) ?? 0);
    this.#files.delete(name);
    this.#files.set(name, bytes);
  }

  async #drop(name: string): Promise<void> {
    this.#bytes -= this.#files.get(name) ?? 0;
    this.#files.delete(name);
    await rm(this.#pathOf(name), { force: true }).catch(() => {});
  }

  #pathOf(name: string): string {
    return join(this.#folder, name + ending);
  }
}

/** A file's bytes; undefined for what is no file, or has more: a link, a pipe or a device would be read for ever. */
async function readWithin(path: string, mostBytes: number): Promise<Uint8Array | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const known = await file.stat();
    const { size } = known;
    if (!known.isFile() || size > mostBytes) return undefined;
    const bytes = Buffer.alloc(size);
    const { bytesRead } = await file.read(bytes, 0, size, 0);
    return bytes.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
