/** A model from a path or URL: opens, reads, and loads the weight files beside it. */
import { InsituError } from "../base/error.js";
import type { Files } from "../base/platform.js";
import { type AllocateBytes, loadExternalData } from "./external.js";
import { checkLoadOptions, type LoadOptions } from "./load-options.js";
import type { Model } from "./model.js";
import { readModel } from "./read.js";

/** Reads the model at `path` with all its weights. */
export async function loadModel(
  path: string,
  platform: Files,
  options: LoadOptions = {},
  allocateBytes?: AllocateBytes,
): Promise<Model> {
  return loadExternalData(await openModel(path, platform, options, allocateBytes), platform, options, allocateBytes);
}

/** Reads the model at `path`, with the weights that lie in the file itself; external weights stay references. */
export async function openModel(
  path: string,
  platform: Files,
  options: LoadOptions = {},
  allocateBytes?: AllocateBytes,
): Promise<Model> {
  checkLoadOptions(options);
  const bytes = await readWhole(path, platform, options, allocateBytes);
  return readModel(bytes, { owned: true, path });
}

/** Bytes read between two reports of progress. */
const chunk = 2 ** 26;

async function readWhole(
  path: string,
  platform: Files,
  { onProgress }: LoadOptions,
  allocateBytes: AllocateBytes | undefined,
): Promise<Uint8Array> {
  const file = await platform.open(path);
  try {
    const { size } = file;
    let bytes: Uint8Array;
    try {
      bytes = allocateBytes === undefined ? new Uint8Array(size) : allocateBytes([size])[0];
    } catch (cause) {
      if (cause instanceof InsituError) throw cause;
      throw new InsituError("out-of-memory", `${path}: ${size} bytes cannot be allocated`, { cause });
    }
    for (let at = 0; at < size; at += chunk) {
      const end = Math.min(at + chunk, size);
      await file.read(at, bytes.subarray(at, end));
      // A short file is the description of a model whose weights lie elsewhere: they are what takes time.
      if (size > chunk) onProgress?.(end, size);
    }
    return bytes;
  } finally {
    await file.close();
  }
}
