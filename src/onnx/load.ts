/** A model from a path or URL: opens, reads, and loads the weight files beside it. */
import { InsituError } from "../base/error.js";
import type { Files } from "../base/platform.js";
import { type AllocateBytes, allocateOnHeap, loadExternalData, type LoadOptions } from "./external.js";
import type { Model } from "./model.js";
import { readModel } from "./read.js";

/** Reads the model at `path` with all its weights. */
export async function loadModel(
  path: string,
  platform: Files,
  options: LoadOptions = {},
  allocateBytes: AllocateBytes = allocateOnHeap,
): Promise<Model> {
  return loadExternalData(await openModel(path, platform, allocateBytes), platform, options, allocateBytes);
}

/** Reads the model at `path`; external weights stay references. */
export async function openModel(
  path: string,
  platform: Files,
  allocateBytes: AllocateBytes = allocateOnHeap,
): Promise<Model> {
  const bytes = await readWhole(path, platform, allocateBytes);
  return readModel(bytes, { owned: true, path });
}

async function readWhole(path: string, platform: Files, allocateBytes: AllocateBytes): Promise<Uint8Array> {
  const file = await platform.open(path);
  try {
    let bytes: Uint8Array;
    try {
      bytes = allocateBytes(file.size);
    } catch (cause) {
      if (cause instanceof InsituError) throw cause;
      throw new InsituError("out-of-memory", `${path}: ${file.size} bytes cannot be allocated`, { cause });
    }
    await file.read(0, bytes);
    return bytes;
  } finally {
    await file.close();
  }
}
