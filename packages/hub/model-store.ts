/** What models are kept in, as the hub sees it: files by their paths, some of them unfinished. Node has a folder, browsers their origin's storage. */
import { InsituError } from "#insitu/base/error.js";
import type { ReadableFile } from "#insitu/base/platform.js";
import type { ModelStorage } from "./models-api.js";

/** How a file's contents are checked: SHA-256, or git's own SHA-1 of small files. */
export type ChecksumKind = "sha256" | "git";

/** A file that is being fetched. What was written stays when it is closed, and is there when it is opened again. Its errors are sentences. */
export interface PartialFile {
  /** Bytes that are there. */
  readonly size: number;
  /** Forgets all of them. */
  restart(): Promise<void>;
  append(bytes: Uint8Array): Promise<void>;
  /** The checksum of all bytes, in hexadecimal digits. */
  digest(kind: ChecksumKind): Promise<string>;
  /** Gives the file its own name: it is whole. */
  finish(): Promise<void>;
  /** Keeps what is there for another time. */
  close(): Promise<void>;
  /** Keeps nothing. */
  discard(): Promise<void>;
}

/** Thrown where a store is full: what was to be kept is not, not even a part of it. */
export class StorageFull extends InsituError {
  constructor(path: string, why: string, cause?: unknown) {
    super("download", `${path} cannot be written: ${why}`, { cause });
  }
}

/** Files by path: `owner--name/revision/onnx/model_q4.onnx`. */
export interface ModelStore {
  readonly kind: ModelStorage["kind"];
  /** Where it is, for people. */
  readonly place: string;
  /** Every file with its bytes, or those below a folder; unfinished ones count too, and end in .part. */
  files(below?: string): Promise<ReadonlyMap<string, number>>;
  /** Opens a whole file; undefined where there is none. */
  open(path: string): Promise<ReadableFile | undefined>;
  /** Writes a small file at once. */
  write(path: string, text: string): Promise<void>;
  /** Opens a file to be fetched, with what is there of it. */
  partial(path: string): Promise<PartialFile>;
  /** Removes a folder with all that is in it. */
  remove(folder: string): Promise<void>;
  /** Does a work that nobody else does under this name at the same time, in this process or in another tab. */
  exclusive<T>(name: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T>;
  /** Bytes that can still be written; undefined where nobody tells. */
  freeBytes(): Promise<number | undefined>;
  persist(): Promise<boolean>;
}

/** The text of a small file; undefined where there is none. */
export async function textIn(store: ModelStore, path: string): Promise<string | undefined> {
  const file = await store.open(path);
  if (file === undefined) return undefined;
  try {
    const bytes = new Uint8Array(file.size);
    await file.read(0, bytes);
    return new TextDecoder().decode(bytes);
  } finally {
    await file.close();
  }
}
