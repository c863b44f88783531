/**
 * Blocks of pages in a folder, a file for each, within a number of bytes: those that were used longest ago go first. Several processes may
 * share it: files appear whole, and one that is gone is as if it had never been there.
 */
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { checkCount } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { PageStore } from "../base/page-store.js";

const ending = ".page";

/** What a file is called while it is written, and the milliseconds after which it never will be: its process was killed. */
const unfinished = ".part";
const mostMilliseconds = 600_000;

/** A store in a folder, which is made where it is not there. */
export async function openPageFolder(folder: string, mostBytes: number): Promise<PageStore> {
  checkCount("the most bytes of a folder of pages", mostBytes, 1);
  const found = new Map<string, number>();
  try {
    await mkdir(folder, { recursive: true });
    const all = await readdir(folder);
    await Promise.all(all.filter((name) => name.endsWith(unfinished)).map((name) => dropIfOld(join(folder, name))));
    const names = all.filter((name) => name.endsWith(ending));
    const files = await Promise.all(
      names.map(async (name) => {
        const known = await stat(join(folder, name)).catch(() => undefined);
        return { name: name.slice(0, -ending.length), bytes: known?.size ?? 0, used: known?.mtimeMs ?? 0 };
      }),
    );
    for (const { name, bytes } of files.toSorted((a, b) => a.used - b.used)) found.set(name, bytes);
  } catch (cause) {
    throw new InsituError("invalid-argument", `the folder of pages "${folder}" cannot be used: ${String(cause)}`, {
      cause,
    });
  }
  const store = new PageFolder(folder, mostBytes, found);
  await store.makeRoom();
  return store;
}

async function dropIfOld(path: string): Promise<void> {
  const known = await stat(path).catch(() => undefined);
  if (known !== undefined && Date.now() - known.mtimeMs > mostMilliseconds) await rm(path, { force: true });
}

class PageFolder implements PageStore {
  readonly #folder: string;
  readonly #mostBytes: number;
  /** Bytes by name; what was used longest ago comes first. */
  readonly #files: Map<string, number>;
  #bytes = 0;
  /** Of files that are being written. */
  #coming = 0;
  #written = 0;

  constructor(folder: string, mostBytes: number, files: Map<string, number>) {
    this.#folder = folder;
    this.#mostBytes = mostBytes;
    this.#files = files;
    for (const bytes of files.values()) this.#bytes += bytes;
  }

  async load(names: readonly string[]): Promise<readonly (Uint8Array | undefined)[]> {
    const gap = names.findIndex((name) => !this.#files.has(name));
    return Promise.all((gap < 0 ? names : names.slice(0, gap)).map((name) => this.#read(name)));
  }

  async save(values: ReadonlyMap<string, Uint8Array>): Promise<void> {
    const fitting = [...values].filter(([, bytes]) => bytes.length <= this.#mostBytes);
    const coming = fitting.reduce((sum, [, bytes]) => sum + bytes.length, 0);
    this.#coming += coming;
    await this.makeRoom();
    // At a time: each takes several turns of the event loop, in which runs may hold the thread.
    const written = await Promise.allSettled(fitting.map(([name, bytes]) => this.#write(name, bytes)));
    this.#coming -= coming;
    written.forEach(({ status }, at) => {
      const [name, bytes] = fitting[at];
      if (status === "fulfilled") this.#note(name, bytes.length);
    });
    // What came may be more than there is room for.
    await this.makeRoom();
    const failed = written.find(({ status }) => status === "rejected") as PromiseRejectedResult | undefined;
    if (failed !== undefined) throw failed.reason;
  }

  async close(): Promise<void> {}

  async #write(name: string, bytes: Uint8Array): Promise<void> {
    const temporary = join(this.#folder, `${name}.${process.pid}.${this.#written++}${unfinished}`);
    try {
      await writeFile(temporary, bytes);
      await rename(temporary, this.#pathOf(name));
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  async #read(name: string): Promise<Uint8Array | undefined> {
    const path = this.#pathOf(name);
    const bytes = await readFile(path).catch(() => undefined);
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
    for (const name of this.#files.keys()) {
      if (this.#bytes + this.#coming <= this.#mostBytes) return;
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
    await rm(this.#pathOf(name), { force: true });
  }

  #pathOf(name: string): string {
    return join(this.#folder, name + ending);
  }
}
