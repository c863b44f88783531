/** A model from a path or URL: opens, reads, and loads the weight files beside it. */
import { InsituError } from "../base/error.js";
import type { Files } from "../base/platform.js";
import { type AllocateBytes, loadExternalData } from "./external.js";
import { checkLoadOptions, type LoadOptions } from "./load-options.js";
import { inside, readAroundWeights } from "./graph-only.js";
import type { Model } from "./model.js";
import { readModel } from "./read.js";
import type { ArrivingWeights } from "./arriving-weights.js";
import { DeferredWeights, leastDeferred } from "./weight-source.js";

/** Reads the model at `path` with all its weights; with `later`, large ones stay in their files until they are wanted, or are on their way. */
export async function loadModel(
  path: string,
  platform: Files,
  options: LoadOptions = {},
  allocateBytes?: AllocateBytes,
  later?: DeferredWeights | ArrivingWeights,
): Promise<Model> {
  checkLoadOptions(options);
  const { onProgress } = options;
  const { model, size } =
    (later && (await readAround(path, platform, options, later instanceof DeferredWeights))) ??
    (await readWhole(path, platform, options, allocateBytes));
  // Weights in other files are counted on from the model's own bytes; without any, those were all.
  let counted = false;
  const onWeights = (loaded: number, total: number): void => {
    counted = true;
    onProgress?.(size + loaded, size + total);
  };
  const loaded = await loadExternalData(model, platform, { ...options, onProgress: onWeights }, allocateBytes, later);
  if (!counted) onProgress?.(size, size);
  return loaded;
}

/** Reads the model at `path`, with the weights that lie in the file itself; external weights stay references. */
export async function openModel(
  path: string,
  platform: Files,
  options: LoadOptions = {},
  allocateBytes?: AllocateBytes,
): Promise<Model> {
  checkLoadOptions(options);
  const { model, size } = await readWhole(path, platform, options, allocateBytes);
  options.onProgress?.(size, size);
  return model;
}

/** Bytes of a file from which on it is read around its weights. */
const leastAround = 2 ** 22;

/**
 * The model in a file but for its large weights, and the bytes beside them; undefined for a file that is better read as a whole: one that is not near,
 * unless `isAnyRead`, or one that is read in order.
 */
async function readAround(
  path: string,
  platform: Files,
  { onProgress }: LoadOptions,
  isAnyRead: boolean,
): Promise<{ readonly model: Model; readonly size: number } | undefined> {
  const file = await platform.open(path);
  try {
    const canBeRead = isAnyRead ? file.inOrder !== true : file.isNear === true;
    if (file.size < leastAround || !canBeRead) return undefined;
    onProgress?.(0, file.size);
    const model = await readAroundWeights(file, path, leastDeferred);
    const later = model.graph.initializers.filter(({ external }) => external?.location === inside);
    return { model, size: later.reduce((left, { external }) => left - external!.length!, file.size) };
  } finally {
    await file.close();
  }
}

/** Bytes read between two reports of progress. */
const chunk = 2 ** 22;

/** The model in a file and the file's size. Progress is told from 0 on; its end is the caller's to tell. */
async function readWhole(
  path: string,
  platform: Files,
  { onProgress }: LoadOptions,
  allocateBytes: AllocateBytes | undefined,
): Promise<{ readonly model: Model; readonly size: number }> {
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
      onProgress?.(at, size);
      await file.read(at, bytes.subarray(at, Math.min(at + chunk, size)));
    }
    return { model: readModel(bytes, { owned: true, path }), size };
  } finally {
    await file.close();
  }
}
