/**
 * External data: reads the weights that a model keeps in other files, and moves weights out into one.
 * Which files may be opened is the platform's to say; that a file is long enough is checked here, before anything is
 * allocated.
 */
import { InsituError } from "../base/error.js";
import { type Files, type ReadableFile, smallGap } from "../base/platform.js";
import { arrayConstructorOf, type ByteStorage, byteLengthOf, storageLengthOf } from "../tensor/element-type.js";
import type { LaterElements } from "../tensor/deferred.js";
import { elementCount } from "../tensor/view.js";
import { ArrivingWeights, type WantedWeight } from "./arriving-weights.js";
import {
  type Asked,
  checkOverlap,
  checkSizes,
  type ExternalTensor,
  refuseForeign,
  unreadable,
  type WeightFile,
  weightFiles,
} from "./external-files.js";
import { inside } from "./graph-only.js";
import { checkLoadOptions, type LoadOptions } from "./load-options.js";
import { mapTensors } from "./map-tensors.js";
import type { Model, ModelTensor } from "./model.js";
import { quote } from "./read-basics.js";
import { DeferredWeights, deferrableWeights, deferredTensor } from "./weight-source.js";

/**
 * Gives the memory that weights are read into, one piece for each size: a backend's own, so that they are never held twice. It is asked
 * for everything before the first byte is read, and throws where that cannot be had.
 */
export type AllocateBytes = (sizes: readonly number[]) => readonly Uint8Array[];

/** Bytes read between two reports of progress. */
const chunk = 2 ** 26;

/** Files that are kept open between the check of their sizes and reading them: a model may name thousands. */
const mostOpen = 64;

/**
 * The model with every external tensor loaded. Needs no platform where the caller gives all files as bytes. Without `allocateBytes` weights
 * lie on the heap, and those that the caller gives as bytes stay where they are. With `later`, large ones of files that can be read again stay
 * there and are read when they are wanted (`DeferredWeights`), or those of files that are near are on their way when this resolves (`ArrivingWeights`).
 */
export async function loadExternalData(
  model: Model,
  platform: Files | undefined,
  options: LoadOptions = {},
  allocateBytes?: AllocateBytes,
  later?: DeferredWeights | ArrivingWeights,
): Promise<Model> {
  checkLoadOptions(options);
  const files = weightFiles(model, platform, options);
  if (files.length === 0) return model;
  const deferrable = later && deferrableWeights(model);
  const deferring = later instanceof DeferredWeights ? later : undefined;
  const deferred = new Map<ModelTensor, LaterElements>();
  try {
    // All sizes are known to be right, and all memory is there, before anything is read.
    const asked = new Map<unknown, Asked>();
    for (const [at, each] of files.entries()) {
      if (each.bytes === undefined) each.file = await each.open();
      const size = each.file?.size ?? each.bytes!.byteLength;
      if (each.file !== undefined) await refuseForeign(each.tensors[0], each.file);
      const bytes = checkSizes(each.tensors, size);
      // Names that lead to one file, and arrays of one memory, are one.
      const whole = each.bytes?.buffer ?? each.file?.identity ?? each;
      checkOverlap(asked, whole, { bytes, size: each.bytes?.buffer.byteLength ?? size, tensor: each.tensors[0] });
      const large = each.tensors.filter((tensor) => deferrable?.has(tensor));
      const source = large.length > 0 && each.file ? deferring?.sourceFor(each.file, each.open) : undefined;
      if (source !== undefined) {
        delete each.file;
        for (const tensor of large)
          deferred.set(tensor, deferring!.add(source.elements(tensor, tensor.external.offset, unreadable(tensor))));
        if (at >= mostOpen) await source.close();
      }
      if (at < mostOpen) continue;
      await each.file?.close();
      delete each.file;
    }
    const total = files
      .flatMap(({ tensors }) => tensors)
      .reduce((sum, { type, dims }) => sum + byteLengthOf(type, elementCount(dims)), 0);
    for (const each of files) each.tensors = each.tensors.filter((tensor) => !deferred.has(tensor));
    const loaded = await placeTensors(model, files, allocateBytes, later);
    const sharers = new Map<ByteStorage, number>();
    for (const { storage } of loaded.values()) sharers.set(storage, (sharers.get(storage) ?? 0) + 1);
    let done = 0;
    const progress = (bytes: number): void => options.onProgress?.(Math.min((done += bytes), total), total);
    if (deferred.size > 0) {
      progress(0);
      deferring!.onRead = progress;
    }
    for (const [at, file] of files.entries()) {
      if (file.tensors.length === 0) continue;
      if (later instanceof ArrivingWeights && file.bytes === undefined && at < mostOpen) {
        file.file ??= await file.open();
        if (file.file.isNear === true) {
          const wanted = file.tensors.map((tensor): WantedWeight => {
            const { storage, fill } = loaded.get(tensor)!;
            const { offset } = tensor.external;
            const [mayWait, isAlone] = [deferrable!.has(tensor), sharers.get(storage) === 1];
            return { tensor, offset, place: storage, fill, mayWait, isAlone, fail: unreadable(tensor) };
          });
          const source = file.file;
          delete file.file;
          for (const [tensor, elements] of await later.bring(model, source, wanted, progress))
            deferred.set(tensor, elements);
          continue;
        }
      }
      await readFrom(file, loaded, progress);
    }
    return mapTensors(model, (tensor) => {
      const elements = deferred.get(tensor);
      const data = elements === undefined ? loaded.get(tensor)?.storage : undefined;
      if (data === undefined && elements === undefined) return tensor;
      // What lies in the model's own file is no reference to another.
      const { external, ...own } = tensor;
      const placed = external?.location === inside ? own : tensor;
      return data === undefined ? deferredTensor(placed, elements!) : { ...placed, data };
    });
  } finally {
    for (const { file } of files) await file?.close();
  }
}

/** Where a tensor's bytes go, and whether they are still to be brought there. */
interface Place {
  readonly storage: ByteStorage;
  readonly fill: boolean;
}

/** Storage for every tensor. Those of one type with one and the same range share it, as models of the same file may. */
async function placeTensors(
  model: Model,
  files: readonly WeightFile[],
  allocateBytes: AllocateBytes | undefined,
  later: DeferredWeights | ArrivingWeights | undefined,
): Promise<ReadonlyMap<ModelTensor, Place>> {
  const places = new Map<ModelTensor, Place>();
  for (const { tensors, bytes, file } of files) {
    const wanted: { readonly tensor: ExternalTensor; readonly sharers: ExternalTensor[] }[] = [];
    const ranges = new Map<string, ExternalTensor[]>();
    for (const tensor of tensors) {
      const storage = allocateBytes === undefined && bytes !== undefined ? storageIn(bytes, tensor) : undefined;
      if (storage !== undefined) {
        places.set(tensor, { storage, fill: false });
        continue;
      }
      const range = rangeOf(tensor);
      const sharers = ranges.get(range);
      if (sharers !== undefined) sharers.push(tensor);
      else {
        const others: ExternalTensor[] = [];
        ranges.set(range, others);
        wanted.push({ tensor, sharers: others });
      }
    }
    const sizes = wanted.map(({ tensor }) => storageBytes(tensor));
    const named = tensors.map((tensor) => [tensor.name, rangeOf(tensor)] as const);
    const shared = later instanceof ArrivingWeights ? await later.share(model, file, named, sizes) : undefined;
    const pieces =
      shared?.pieces ?? allocateBytes?.(sizes) ?? wanted.map(({ tensor }, at) => allocateOnHeap(tensor, sizes[at]));
    wanted.forEach(({ tensor, sharers }, at) => {
      const { buffer, byteOffset } = pieces[at];
      const length = storageLengthOf(tensor.type, elementCount(tensor.dims));
      const storage = new (arrayConstructorOf(tensor.type))(buffer, byteOffset, length);
      places.set(tensor, { storage, fill: shared === undefined || shared.settle !== undefined });
      for (const sharer of sharers) places.set(sharer, { storage, fill: false });
    });
  }
  return places;
}

const rangeOf = ({ type, dims, external: { offset } }: ExternalTensor): string =>
  `${type} ${offset} ${elementCount(dims)}`;

const storageBytes = ({ type, dims }: ExternalTensor): number =>
  storageLengthOf(type, elementCount(dims)) * arrayConstructorOf(type).BYTES_PER_ELEMENT;

/** A view of the caller's bytes; undefined where they are not aligned. */
function storageIn(bytes: Uint8Array, { type, dims, external }: ExternalTensor): ByteStorage | undefined {
  const constructor = arrayConstructorOf(type);
  const at = bytes.byteOffset + external.offset;
  if (at % constructor.BYTES_PER_ELEMENT !== 0) return undefined;
  return new constructor(bytes.buffer, at, storageLengthOf(type, elementCount(dims)));
}

function allocateOnHeap(tensor: ExternalTensor, bytes: number): Uint8Array {
  try {
    return new Uint8Array(bytes);
  } catch (cause) {
    throw new InsituError(
      "out-of-memory",
      `tensor ${quote(tensor.name)}: ${tensor.type}[${tensor.dims.join(",")}] cannot be allocated`,
      { cause },
    );
  }
}

/** Brings each tensor of a file straight into its own storage, in the order of the file. */
async function readFrom(
  from: WeightFile,
  places: ReadonlyMap<ModelTensor, Place>,
  progress: (bytes: number) => void,
): Promise<void> {
  const { tensors, bytes } = from;
  const file = bytes === undefined ? (from.file ?? (await from.open())) : undefined;
  delete from.file;
  try {
    let until = 0;
    for (const [at, tensor] of tensors.entries()) {
      if (tensor.external.offset >= until) until = runEnd(tensors, at);
      const { storage, fill } = places.get(tensor)!;
      const target = new Uint8Array(storage.buffer, storage.byteOffset, storage.byteLength);
      if (!fill) progress(target.length);
      else if (file !== undefined) await readInto(file, tensor, target, until, progress);
      else {
        target.set(bytes!.subarray(tensor.external.offset, tensor.external.offset + target.length));
        progress(target.length);
      }
    }
  } finally {
    await file?.close();
  }
}

/** Where the tensors end that follow each other in their file from one on, without gaps that are worth a request. */
function runEnd(tensors: readonly ExternalTensor[], from: number): number {
  let end = tensors[from].external.offset;
  for (let at = from; at < tensors.length; at++) {
    const { external, type, dims } = tensors[at];
    if (external.offset > end + smallGap) break;
    end = Math.max(end, external.offset + byteLengthOf(type, elementCount(dims)));
  }
  return end;
}

async function readInto(
  file: ReadableFile,
  tensor: ExternalTensor,
  bytes: Uint8Array,
  until: number,
  progress: (bytes: number) => void,
): Promise<void> {
  for (let at = 0; at < bytes.length; at += chunk) {
    const target = bytes.subarray(at, Math.min(at + chunk, bytes.length));
    try {
      await file.read(tensor.external.offset + at, target, until);
    } catch (error) {
      unreadable(tensor)(error);
    }
    progress(target.length);
  }
}
