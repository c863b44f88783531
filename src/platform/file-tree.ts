/** A tree of files as a platform: a model that is kept in a store, or that somebody dropped on a page. Threads and devices are the browser's. */
import { InsituError } from "../base/error.js";
import type { FolderPlatform, ReadableFile } from "../base/platform.js";
import { locationSegments } from "./location.js";
import { entriesOf } from "./web-blobs.js";

/** Files by their paths below a folder. */
export interface FileTree {
  has(path: string): Promise<boolean>;
  /** Opens a file; undefined where there is none. */
  open(path: string): Promise<ReadableFile | undefined>;
  /** Why there is no file, where more can be said than that. */
  whyAbsent?(path: string): Promise<string>;
}

/** What a page may hand in as a model: a folder, or the files of one. */
export type ModelFolder = FileSystemDirectoryHandle | Iterable<File> | ArrayLike<File>;

/** A platform whose files are those of a tree, under the name `root`. */
export function treePlatform(base: FolderPlatform, root: string, tree: FileTree): FolderPlatform {
  const pathOf = (path: string): string => path.slice(root.length).replace(/^\/+/, "");
  const open = async (path: string): Promise<ReadableFile> => {
    const file = await tree.open(path);
    if (file === undefined) throw new InsituError("invalid-model", `"${root}" has no ${path}`);
    return file;
  };
  return {
    ...base,
    // A getter would be read once by the spread: what it tells may change.
    get threads() {
      return base.threads;
    },
    open: (path) => open(pathOf(path)),
    exists: (path) => tree.has(pathOf(path)),
    whyAbsent: async (path) => (await tree.whyAbsent?.(pathOf(path))) ?? `${root} has no ${pathOf(path)}`,
    openBeside(modelPath, location) {
      const folder = pathOf(modelPath).split("/").slice(0, -1);
      return open([...folder, ...locationSegments(location)].join("/"));
    },
  };
}

/** True for what a page may hand in as a folder. */
export const isModelFolder = (value: unknown): value is ModelFolder =>
  typeof value === "object" &&
  value !== null &&
  !(value instanceof URL) &&
  (isDirectory(value) || Symbol.iterator in value || "length" in value);

const isDirectory = (value: object): value is FileSystemDirectoryHandle =>
  "kind" in value && value.kind === "directory" && "getFileHandle" in value;

/** The files that were handed in, by their paths below the folder that they have in common; and that folder's name. */
export async function droppedTree(given: ModelFolder): Promise<{ readonly name: string; readonly tree: FileTree }> {
  const files = new Map<string, () => Promise<File>>();
  if (isDirectory(given)) await walk(given, "", files);
  else
    for (const file of Array.from(given)) {
      if (!(file instanceof File))
        throw new InsituError("invalid-argument", "a model that is handed in is a folder, or a list of files");
      files.set(file.webkitRelativePath === "" ? file.name : file.webkitRelativePath, async () => file);
    }
  const first = [...files.keys()].at(0) ?? "";
  const folder = first.includes("/") ? first.slice(0, first.indexOf("/") + 1) : "";
  const isCommon =
    folder !== "" &&
    folder !== "onnx/" &&
    [...files.keys()].every((path) => path.startsWith(folder)) &&
    !isDirectory(given);
  const cut = isCommon ? folder.length : 0;
  const byPath = new Map([...files].map(([path, file]) => [path.slice(cut), file]));
  const name = isDirectory(given) ? given.name : isCommon ? folder.slice(0, -1) : "dropped files";
  if (byPath.size === 0) throw new InsituError("invalid-model", `"${name}" holds no files`);
  return {
    name,
    tree: {
      has: async (path) => byPath.has(path),
      async open(path) {
        const file = await byPath.get(path)?.();
        return file && new BlobFile(file, `${name}/${path}`);
      },
    },
  };
}

async function walk(
  folder: FileSystemDirectoryHandle,
  below: string,
  files: Map<string, () => Promise<File>>,
): Promise<void> {
  for await (const [name, handle] of entriesOf(folder)) {
    if (handle.kind === "directory") await walk(handle as FileSystemDirectoryHandle, `${below}${name}/`, files);
    else files.set(below + name, () => (handle as FileSystemFileHandle).getFile());
  }
}

/** Bytes that are read at once: what is read is held a second time for that long. */
const readBytes = 16 * 2 ** 20;

/** A blob read in pieces. */
class BlobFile implements ReadableFile {
  readonly identity: string;
  readonly #blob: Blob;

  constructor(blob: Blob, identity: string) {
    this.#blob = blob;
    this.identity = identity;
  }

  get size(): number {
    return this.#blob.size;
  }

  async read(offset: number, target: Uint8Array): Promise<void> {
    if (offset + target.length > this.size)
      throw new Error(`${this.identity} has ${this.size} bytes, ${offset + target.length} were asked for`);
    for (let at = 0; at < target.length; at += readBytes) {
      const end = Math.min(target.length, at + readBytes);
      target.set(new Uint8Array(await this.#blob.slice(offset + at, offset + end).arrayBuffer()), at);
    }
  }

  async close(): Promise<void> {}
}
