/**
 * What models are kept in for pages of one origin: files as blocks, so that a download that ends with its tab keeps the blocks that came, and nothing
 * is copied when it goes on. A file is whole once its last entry says how long it is.
 */
import type { ReadableFile } from "../base/platform.js";
import { Sha256 } from "../base/sha256.js";
import { type ChecksumKind, type ModelStore, type PartialFile, StorageFull } from "#insitu/hub/model-store.js";
import { type BlobStore, openBlobs } from "./web-blobs.js";

/** Bytes of a block: what a download holds in memory, and what is lost of it when its tab ends. */
const blockBytes = 4 * 2 ** 20;

const endKey = (path: string): string => `${path}#end`;
const blockKey = (path: string, block: number): string => `${path}#${String(block).padStart(6, "0")}`;
const keyPattern = /^(.*)#(end|\d{6})$/;

/** What the last entry of a file says. */
interface End {
  readonly size: number;
  readonly blockBytes: number;
}

let opening: Promise<ModelStore> | undefined;

/** The store of this origin; of the kind "none", with the reason as its place, where the browser keeps nothing. */
export const webStore = (): Promise<ModelStore> => (opening ??= openBlobs().then(storeOf));

function storeOf(blobs: BlobStore | string): ModelStore {
  if (typeof blobs === "string") return nowhere(blobs);
  return {
    kind: blobs.kind,
    place: blobs.kind === "opfs" ? "the browser's private file system" : "the browser's cache",
    files: (below) => filesIn(blobs, below),
    async open(path) {
      const end = await endOf(blobs, path);
      return end && new BlockFile(blobs, path, end);
    },
    async write(path, text) {
      const part = new BlockPart(blobs, path);
      await part.append(new TextEncoder().encode(text));
      await part.finish();
    },
    async partial(path) {
      const part = new BlockPart(blobs, path);
      await part.takeUp();
      return part;
    },
    async remove(folder) {
      for (const key of (await blobs.sizes(folder)).keys()) await blobs.delete(key);
    },
    exclusive: async (name, signal, work) =>
      globalThis.navigator?.locks === undefined
        ? work()
        : navigator.locks.request(`insitu-models/${name}`, signal === undefined ? {} : { signal }, work),
    async freeBytes() {
      const { quota, usage } = (await globalThis.navigator?.storage?.estimate?.()) ?? {};
      return quota === undefined || usage === undefined ? undefined : Math.max(0, quota - usage);
    },
    persist: async () => (await globalThis.navigator?.storage?.persist?.()) ?? false,
  };
}

/** Where nothing can be kept. */
function nowhere(why: string): ModelStore {
  const refuse = async (): Promise<never> => {
    throw new StorageFull("a model", why);
  };
  return {
    kind: "none",
    place: why,
    files: async () => new Map(),
    open: async () => undefined,
    write: refuse,
    partial: refuse,
    remove: async () => {},
    exclusive: (_, __, work) => work(),
    freeBytes: async () => 0,
    persist: async () => false,
  };
}

async function endOf(blobs: BlobStore, path: string): Promise<End | undefined> {
  const blob = await blobs.get(endKey(path));
  return blob && (JSON.parse(await blob.text()) as End);
}

async function filesIn(blobs: BlobStore, below?: string): Promise<Map<string, number>> {
  const bytes = new Map<string, number>();
  const whole = new Set<string>();
  for (const [key, size] of await blobs.sizes(below)) {
    const [, path, part] = keyPattern.exec(key) ?? [];
    if (path === undefined) continue;
    if (part === "end") whole.add(path);
    bytes.set(path, (bytes.get(path) ?? 0) + (part === "end" ? 0 : size));
  }
  return new Map([...bytes].map(([path, size]) => [whole.has(path) ? path : `${path}.part`, size]));
}

/** Blocks read as one file. */
class BlockFile implements ReadableFile {
  readonly size: number;
  readonly identity: string;
  readonly #blobs: BlobStore;
  readonly #path: string;
  readonly #blockBytes: number;
  /** The block that was read last, and its number. */
  #open: readonly [block: number, contents: Blob] | undefined;

  constructor(blobs: BlobStore, path: string, end: End) {
    this.#blobs = blobs;
    this.#path = path;
    this.size = end.size;
    this.#blockBytes = end.blockBytes;
    this.identity = path;
  }

  async read(offset: number, target: Uint8Array): Promise<void> {
    if (offset + target.length > this.size)
      throw new Error(`${this.#path} has ${this.size} bytes, ${offset + target.length} were asked for`);
    for (let at = 0; at < target.length;) {
      const block = Math.floor((offset + at) / this.#blockBytes);
      const from = (offset + at) % this.#blockBytes;
      const contents = await this.#block(block);
      const piece = contents.slice(from, from + Math.min(target.length - at, this.#blockBytes - from));
      const bytes = new Uint8Array(await piece.arrayBuffer());
      if (bytes.length === 0) throw new Error(`${this.#path}: block ${block} is gone from the browser's storage`);
      target.set(bytes, at);
      at += bytes.length;
    }
  }

  async #block(block: number): Promise<Blob> {
    if (this.#open?.[0] !== block)
      this.#open = [block, (await this.#blobs.get(blockKey(this.#path, block))) ?? new Blob()];
    return this.#open[1];
  }

  async close(): Promise<void> {
    this.#open = undefined;
  }
}

/** Blocks that are being written. The last one, as far as it came, is held until it is full, or the file is closed. */
class BlockPart implements PartialFile {
  readonly #blobs: BlobStore;
  readonly #path: string;
  readonly #held: Uint8Array<ArrayBuffer> = new Uint8Array(blockBytes);
  /** Blocks that are full. */
  #blocks = 0;
  #heldBytes = 0;
  /** Bytes of the last block that are written already. */
  #keptBytes = 0;
  #digest: Sha256 = new Sha256();

  constructor(blobs: BlobStore, path: string) {
    this.#blobs = blobs;
    this.#path = path;
  }

  get size(): number {
    return this.#blocks * blockBytes + this.#heldBytes;
  }

  /** Goes on where an earlier download ended. */
  async takeUp(): Promise<void> {
    for (;;) {
      const blob = await this.#blobs.get(blockKey(this.#path, this.#blocks));
      if (blob === undefined || blob.size === 0 || blob.size > blockBytes) return;
      const bytes = new Uint8Array(await blob.arrayBuffer());
      this.#digest.update(bytes);
      if (bytes.length < blockBytes) {
        this.#held.set(bytes);
        this.#heldBytes = this.#keptBytes = bytes.length;
        return;
      }
      this.#blocks++;
    }
  }

  async restart(): Promise<void> {
    await this.discard();
    [this.#blocks, this.#heldBytes, this.#keptBytes] = [0, 0, 0];
    this.#digest = new Sha256();
  }

  async append(bytes: Uint8Array): Promise<void> {
    this.#digest.update(bytes);
    for (let at = 0; at < bytes.length;) {
      const piece = bytes.subarray(at, at + blockBytes - this.#heldBytes);
      this.#held.set(piece, this.#heldBytes);
      this.#heldBytes += piece.length;
      at += piece.length;
      if (this.#heldBytes < blockBytes) continue;
      await this.#put(blockKey(this.#path, this.#blocks), this.#held);
      this.#blocks++;
      [this.#heldBytes, this.#keptBytes] = [0, 0];
    }
  }

  async digest(kind: ChecksumKind): Promise<string> {
    if (kind === "sha256") return hex(this.#digest.end());
    // Git's digests are for small files: all of it is taken together.
    await this.close();
    const head = new TextEncoder().encode(`blob ${this.size}\0`);
    const file = new BlockFile(this.#blobs, this.#path, { size: this.size, blockBytes });
    const all = new Uint8Array(head.length + this.size);
    all.set(head);
    await file.read(0, all.subarray(head.length));
    return hex(new Uint8Array(await crypto.subtle.digest("SHA-1", all)));
  }

  async finish(): Promise<void> {
    await this.close();
    const end: End = { size: this.size, blockBytes };
    await this.#put(endKey(this.#path), new TextEncoder().encode(JSON.stringify(end)));
  }

  async close(): Promise<void> {
    if (this.#heldBytes === this.#keptBytes) return;
    await this.#put(blockKey(this.#path, this.#blocks), this.#held.slice(0, this.#heldBytes));
    this.#keptBytes = this.#heldBytes;
  }

  async discard(): Promise<void> {
    this.#heldBytes = this.#keptBytes;
    for (let block = 0; ; block++) {
      const key = blockKey(this.#path, block);
      if ((await this.#blobs.get(key)) === undefined) break;
      await this.#blobs.delete(key);
    }
    await this.#blobs.delete(endKey(this.#path));
  }

  async #put(key: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    try {
      await this.#blobs.put(key, bytes);
    } catch (error) {
      if (!fullNames.includes((error as Error).name)) throw error;
      // What cannot be kept as a whole is not kept at all.
      await this.discard();
      throw new StorageFull(
        this.#path,
        `the browser's storage for this page is full: remove a model (models.list, models.remove) or take a smaller variant`,
        error,
      );
    }
  }
}

/** What a browser says where there is no room: Chromium now and then stops reading what is put before it says why, and nobody else aborts that. */
const fullNames: readonly string[] = ["QuotaExceededError", "AbortError"];

const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
