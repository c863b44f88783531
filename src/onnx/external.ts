/**
 * External data: reads the weights that a model keeps in other files, and moves weights out into one.
 * Which files may be opened is the platform's to say; that a file is long enough is checked here, before anything is
 * allocated.
 */
import { InsituError } from "../base/error.js";
import type { Files, ReadableFile } from "../base/platform.js";
import {
  arrayConstructorOf,
  type ByteStorage,
  byteLengthOf,
  type ElementType,
  storageLengthOf,
} from "../tensor/element-type.js";
import { elementCount, largestByteLength } from "../tensor/view.js";
import { mapTensors } from "./map-tensors.js";
import type { Model, ModelTensor } from "./model.js";
import { quote } from "./read-basics.js";

/** A weight file that the caller gives: its bytes, or a path or URL to open. */
export interface ExternalData {
  /** The location as the model names it. */
  readonly path: string;
  readonly data: Uint8Array | ArrayBufferLike | string;
}

/** How to load. */
export interface LoadOptions {
  /** Files given by the caller; a plain string is both path and data. They come before those beside the model. */
  readonly externalData?: readonly (ExternalData | string)[];
  /** Called as bytes arrive. */
  readonly onProgress?: (loaded: number, total: number) => void;
}

/** Gives the memory that weights are read into: a backend's own, so that they are never held twice. */
export type AllocateBytes = (bytes: number) => Uint8Array;

/** Memory of the JavaScript heap. */
export const allocateOnHeap: AllocateBytes = (bytes) => new Uint8Array(bytes);

/** Bytes read between two reports of progress. */
const chunk = 2 ** 26;

/** How often the tensors of a model may together ask for the bytes of one file: overlaps must not multiply memory. */
const mostOverlap = 4;

type ExternalTensor = ModelTensor & {
  readonly external: NonNullable<ModelTensor["external"]>;
  readonly type: Exclude<ElementType, "string">;
};

const fail = (tensor: ExternalTensor, message: string, cause?: unknown): never => {
  throw new InsituError(
    "external-data",
    `tensor ${quote(tensor.name)}: external data ${quote(tensor.external.location)} ${message}`,
    { cause },
  );
};

/** The model with every external tensor loaded. Needs no platform where the caller gives all files as bytes. */
export async function loadExternalData(
  model: Model,
  platform: Files | undefined,
  options: LoadOptions = {},
  allocateBytes: AllocateBytes = allocateOnHeap,
): Promise<Model> {
  const byLocation = new Map<string, ExternalTensor[]>();
  let total = 0;
  mapTensors(model, (tensor) => {
    if (tensor.external === undefined || tensor.data !== undefined || tensor.type === "string") return tensor;
    const external = tensor as ExternalTensor;
    const location = plainLocation(external.external.location);
    total += byteLengthOf(tensor.type, elementCount(tensor.dims));
    const others = byLocation.get(location);
    if (others === undefined) byLocation.set(location, [external]);
    else others.push(external);
    return tensor;
  });
  if (byLocation.size === 0) return model;
  const loaded = new Map<ModelTensor, ByteStorage>();
  let done = 0;
  const progress = (bytes: number): void => options.onProgress?.((done += bytes), total);
  for (const [location, tensors] of byLocation) {
    const given = findGiven(location, options.externalData ?? []);
    if (given !== undefined && typeof given !== "string") takeFrom(given, tensors, loaded, progress, allocateBytes);
    else
      await readFrom(
        () => openFile(model, platform, location, given, tensors[0]),
        tensors,
        loaded,
        progress,
        allocateBytes,
      );
  }
  return mapTensors(model, (tensor) => {
    const data = loaded.get(tensor);
    return data === undefined ? tensor : { ...tensor, data };
  });
}

/** A location without leading `./`, so that spellings of one file meet. */
const plainLocation = (location: string): string => location.replace(/^(\.\/+)+/, "");

function findGiven(location: string, given: readonly (ExternalData | string)[]): Uint8Array | string | undefined {
  for (const entry of given) {
    const { path, data } = typeof entry === "string" ? { path: entry, data: entry } : entry;
    if (plainLocation(path) !== location) continue;
    return typeof data === "string" || data instanceof Uint8Array ? data : new Uint8Array(data);
  }
  return undefined;
}

async function openFile(
  model: Model,
  platform: Files | undefined,
  location: string,
  given: string | undefined,
  tensor: ExternalTensor,
): Promise<ReadableFile> {
  if (platform === undefined) return fail(tensor, "was not given: pass it in externalData");
  if (given === undefined && model.path === undefined)
    return fail(tensor, "cannot be found: the model's path is not known; pass it in externalData");
  try {
    return await (given === undefined ? platform.openBeside(model.path ?? "", location) : platform.open(given));
  } catch (error) {
    return fail(tensor, `cannot be opened: ${error instanceof Error ? error.message : String(error)}`, error);
  }
}

/** Checks that a file of `size` bytes holds what the tensors ask for. */
function checkSizes(tensors: readonly ExternalTensor[], size: number): void {
  const ranges = new Map<string, number>();
  for (const tensor of tensors) {
    const { offset, length } = tensor.external;
    const expected = byteLengthOf(tensor.type, elementCount(tensor.dims));
    if (length !== undefined && length !== expected)
      fail(tensor, `has length ${length}, ${tensor.type}[${tensor.dims.join(",")}] needs ${expected}`);
    if (offset + expected > size) fail(tensor, `has ${size} bytes, the tensor needs ${expected} from offset ${offset}`);
    if (expected > largestByteLength)
      fail(tensor, `holds ${expected} bytes for one tensor, at most ${largestByteLength} can be addressed`);
    ranges.set(`${tensor.type} ${offset} ${expected}`, expected);
  }
  let asked = 0;
  for (const length of ranges.values()) asked += length;
  if (asked > size * mostOverlap) fail(tensors[0], `has ${size} bytes, overlapping tensors ask for ${asked}`);
}

/** Views of the caller's bytes where they are aligned, copies where not. */
function takeFrom(
  bytes: Uint8Array,
  tensors: readonly ExternalTensor[],
  loaded: Map<ModelTensor, ByteStorage>,
  progress: (bytes: number) => void,
  allocateBytes: AllocateBytes,
): void {
  checkSizes(tensors, bytes.byteLength);
  for (const tensor of tensors) {
    const constructor = arrayConstructorOf(tensor.type);
    const count = elementCount(tensor.dims);
    const length = storageLengthOf(tensor.type, count);
    const at = bytes.byteOffset + tensor.external.offset;
    if (at % constructor.BYTES_PER_ELEMENT === 0) loaded.set(tensor, new constructor(bytes.buffer, at, length));
    else {
      const storage = allocate(tensor, length, allocateBytes);
      new Uint8Array(storage.buffer, storage.byteOffset, storage.byteLength).set(
        new Uint8Array(bytes.buffer, at, storage.byteLength),
      );
      loaded.set(tensor, storage);
    }
    progress(byteLengthOf(tensor.type, count));
  }
}

function allocate(tensor: ExternalTensor, length: number, allocateBytes: AllocateBytes): ByteStorage {
  const constructor = arrayConstructorOf(tensor.type);
  try {
    const bytes = allocateBytes(length * constructor.BYTES_PER_ELEMENT);
    return new constructor(bytes.buffer, bytes.byteOffset, length);
  } catch (cause) {
    if (cause instanceof InsituError) throw cause;
    throw new InsituError(
      "out-of-memory",
      `tensor ${quote(tensor.name)}: ${tensor.type}[${tensor.dims.join(",")}] cannot be allocated`,
      { cause },
    );
  }
}

/** Reads each tensor straight into its own storage, in the order of the file; tensors with one and the same range share it. */
async function readFrom(
  open: () => Promise<ReadableFile>,
  tensors: readonly ExternalTensor[],
  loaded: Map<ModelTensor, ByteStorage>,
  progress: (bytes: number) => void,
  allocateBytes: AllocateBytes,
): Promise<void> {
  const file = await open();
  try {
    checkSizes(tensors, file.size);
    const shared = new Map<string, ByteStorage>();
    for (const tensor of tensors.toSorted((a, b) => a.external.offset - b.external.offset)) {
      const length = storageLengthOf(tensor.type, elementCount(tensor.dims));
      const range = `${tensor.type} ${tensor.external.offset} ${length}`;
      let storage = shared.get(range);
      if (storage === undefined) {
        storage = allocate(tensor, length, allocateBytes);
        shared.set(range, storage);
        await readInto(file, tensor, storage, progress);
      } else progress(storage.byteLength);
      loaded.set(tensor, storage);
    }
  } finally {
    await file.close();
  }
}

async function readInto(
  file: ReadableFile,
  tensor: ExternalTensor,
  storage: ByteStorage,
  progress: (bytes: number) => void,
): Promise<void> {
  const bytes = new Uint8Array(storage.buffer, storage.byteOffset, storage.byteLength);
  for (let at = 0; at < bytes.length; at += chunk) {
    const target = bytes.subarray(at, Math.min(at + chunk, bytes.length));
    try {
      await file.read(tensor.external.offset + at, target);
    } catch (error) {
      fail(tensor, `cannot be read: ${error instanceof Error ? error.message : String(error)}`, error);
    }
    progress(target.length);
  }
}
