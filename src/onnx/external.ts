/**
 * External data: reads the weights that a model keeps in other files, and moves weights out into one.
 * Which files may be opened is the platform's to say; that a file is long enough is checked here, before anything is
 * allocated.
 */
import { InsituError } from "../base/error.js";
import { foreignFile, isWebPage } from "../base/foreign-file.js";
import { mostOverlap } from "../base/limits.js";
import { type Files, type ReadableFile, smallGap } from "../base/platform.js";
import {
  arrayConstructorOf,
  type ByteStorage,
  byteLengthOf,
  type ElementType,
  storageLengthOf,
} from "../tensor/element-type.js";
import type { LaterElements } from "../tensor/deferred.js";
import { elementCount, largestByteLength } from "../tensor/view.js";
import { bytesIn, checkLoadOptions, type LoadOptions } from "./load-options.js";
import { inside } from "./graph-only.js";
import { mapTensors } from "./map-tensors.js";
import type { Model, ModelTensor } from "./model.js";
import { quote } from "./read-basics.js";
import { ArrivingWeights, type WantedWeight } from "./arriving-weights.js";
import { DeferredWeights, deferrableWeights, deferredTensor } from "./weight-source.js";

/** A weight file that the caller gives: its bytes, or a path or URL to open. */
export interface ExternalData {
  /** The location as the model names it. */
  readonly path: string;
  readonly data: Uint8Array | ArrayBufferLike | string;
}

/**
 * Gives the memory that weights are read into, one piece for each size: a backend's own, so that they are never held twice. It is asked
 * for everything before the first byte is read, and throws where that cannot be had.
 */
export type AllocateBytes = (sizes: readonly number[]) => readonly Uint8Array[];

/** Bytes read between two reports of progress. */
const chunk = 2 ** 26;

/** Files that are kept open between the check of their sizes and reading them: a model may name thousands. */
const mostOpen = 64;

type ExternalTensor = ModelTensor & {
  readonly external: NonNullable<ModelTensor["external"]>;
  readonly type: Exclude<ElementType, "string">;
};

/** Bytes from which a file is not looked at: what servers send in place of one is shorter. */
const mostForeignBytes = 1 << 16;

const fail = (tensor: ExternalTensor, message: string, cause?: unknown): never => {
  const { location } = tensor.external;
  const where = location === inside ? "its data in the model's file" : `external data ${quote(location)}`;
  throw new InsituError("external-data", `tensor ${quote(tensor.name)}: ${where} ${message}`, { cause });
};

/** A weight file: the caller's bytes or a file, and the tensors that lie in it in their order. */
interface WeightFile {
  /** Without those that stay where they are. */
  tensors: readonly ExternalTensor[];
  readonly bytes: Uint8Array | undefined;
  readonly open: () => Promise<ReadableFile>;
  /** Opened already. */
  file?: ReadableFile;
}

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

/** What is said of a tensor that cannot be read. */
const unreadable =
  (tensor: ExternalTensor) =>
  (error: unknown): never =>
    fail(tensor, `cannot be read: ${error instanceof Error ? error.message : String(error)}`, error);

/** The files that a model's tensors lie in. */
function weightFiles(model: Model, platform: Files | undefined, options: LoadOptions): WeightFile[] {
  const byLocation = new Map<string, ExternalTensor[]>();
  mapTensors(model, (tensor) => {
    if (tensor.external === undefined || tensor.data !== undefined || tensor.type === "string") return tensor;
    const external = tensor as ExternalTensor;
    const location = plainLocation(external.external.location);
    const others = byLocation.get(location);
    if (others === undefined) byLocation.set(location, [external]);
    else others.push(external);
    return tensor;
  });
  return [...byLocation].map(([location, tensors]) => {
    const given = findGiven(location, options.externalData ?? []);
    const path = typeof given === "string" ? given : undefined;
    return {
      tensors: tensors.toSorted((a, b) => a.external.offset - b.external.offset),
      bytes: typeof given === "string" ? undefined : given,
      open: () => openFile(model, platform, location, path, tensors[0]),
    };
  });
}

/** A location without `.` and empty segments, so that spellings of one file meet. What the platform will refuse stays as it is. */
const plainLocation = (location: string): string =>
  /^\/|:|\\|(^|\/)\.?$|(^|\/)\.\.(\/|$)/.test(location)
    ? location
    : location
        .split("/")
        .filter((segment) => segment !== "" && segment !== ".")
        .join("/");

function findGiven(location: string, given: readonly (ExternalData | string)[]): Uint8Array | string | undefined {
  for (const entry of given) {
    const { path, data } = typeof entry === "string" ? { path: entry, data: entry } : entry;
    if (plainLocation(path) !== location) continue;
    return typeof data === "string" ? data : bytesIn(data);
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
  if (location === inside) return platform.open(model.path!);
  try {
    return await (given === undefined ? platform.openBeside(model.path ?? "", location) : platform.open(given));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return fail(tensor, `cannot be opened: ${why}; it belongs beside the model's file: fetch it again, whole`, error);
  }
}

/** Fails for a small file that stands in the place of weights: a pointer of git-LFS, or a page. */
async function refuseForeign(tensor: ExternalTensor, file: ReadableFile): Promise<void> {
  if (file.size > mostForeignBytes || tensor.external.location === inside) return;
  const beginning = new Uint8Array(file.size);
  await file.read(0, beginning);
  const foreign = foreignFile(beginning);
  if (foreign?.startsWith("is a git-LFS pointer") || isWebPage(beginning)) fail(tensor, foreign!);
}

/** Checks that a file of `size` bytes holds what the tensors ask for; the bytes that all of them take, equal ranges once. */
function checkSizes(tensors: readonly ExternalTensor[], size: number): number {
  const ranges = new Map<string, number>();
  for (const tensor of tensors) {
    const { offset, length } = tensor.external;
    const expected = byteLengthOf(tensor.type, elementCount(tensor.dims));
    if (length !== undefined && length !== expected)
      fail(tensor, `has length ${length}, ${tensor.type}[${tensor.dims.join(",")}] needs ${expected}`);
    if (offset + expected > size)
      fail(tensor, `has ${size} bytes, the tensor needs ${expected} from offset ${offset}: fetch it again, whole`);
    if (expected > largestByteLength)
      fail(tensor, `holds ${expected} bytes for one tensor, at most ${largestByteLength} can be addressed`);
    ranges.set(`${tensor.type} ${offset} ${expected}`, expected);
  }
  let asked = 0;
  for (const length of ranges.values()) asked += length;
  return asked;
}

/** What is asked of one file, by whatever names. */
interface Asked {
  readonly bytes: number;
  readonly size: number;
  readonly tensor: ExternalTensor;
}

/** Adds to what is asked of a file; overlaps must not multiply memory. */
function checkOverlap(asked: Map<unknown, Asked>, whole: unknown, more: Asked): void {
  const bytes = (asked.get(whole)?.bytes ?? 0) + more.bytes;
  if (bytes > more.size * mostOverlap)
    fail(more.tensor, `has ${more.size} bytes, overlapping tensors ask for ${bytes}`);
  asked.set(whole, { ...more, bytes });
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
