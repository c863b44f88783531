/**
 * Weights that stay in their files until somebody wants them: which ones of a model may, and the files that they are read from. A file is
 * open while reading goes on, and is opened again for what is wanted later; one that has changed by then is refused.
 */
import { InsituError } from "../base/error.js";
import type { ReadableFile } from "../base/platform.js";
import { DeferredElements, type LaterElements } from "../tensor/deferred.js";
import { byteLengthOf, type ElementType, elementTypes } from "../tensor/element-type.js";
import { elementCount } from "../tensor/view.js";
import { mapTensors } from "./map-tensors.js";
import type { Model, ModelTensor } from "./model.js";

/** Elements from which on a weight may stay in its file: what is smaller is looked into, and costs more to read than to hold. */
export const leastDeferred: number = 2 ** 15;

/** Types whose contents may decide shapes, or which way a graph goes. */
const alwaysRead: ReadonlySet<ElementType> = new Set(
  elementTypes.filter((type) => ["string", "bool"].includes(type) || /^u?int(16|32|64)$/.test(type)),
);

/** A file that weights are read from. */
class WeightSource {
  readonly #open: () => Promise<ReadableFile>;
  readonly #seen: Pick<ReadableFile, "size" | "version" | "identity">;
  readonly #name: string;
  #file: Promise<ReadableFile> | undefined;
  /** Ends when all that was asked for is over. Reads follow each other, but of a file that is near: one that comes over the net has one place at a time. */
  #last: Promise<unknown> = Promise.resolve();
  #underway = 0;
  /** False while a model is loaded: after that the file is closed again behind whatever was read of it. */
  #isLoaded = false;
  /** Ends when the file was closed that somebody asked to close. */
  #closing: Promise<unknown> = Promise.resolve();

  /** `file` is open, and closed here. */
  constructor(file: ReadableFile, open: () => Promise<ReadableFile>) {
    const { size, version, identity } = file;
    this.#seen = { size, version, identity };
    this.#name = version ?? `file ${opened++}`;
    this.#open = open;
    this.#file = Promise.resolve(file);
  }

  /** Elements of the file; `fail` says whose they are where they cannot be read. */
  elements(
    { type, dims }: { readonly type: DeferredElements["type"]; readonly dims: readonly number[] },
    offset: number,
    fail: (error: unknown) => never,
  ): DeferredElements {
    const until = offset + byteLengthOf(type, elementCount(dims));
    const key = `${this.#name} at ${String(offset).padStart(16, "0")} ${type}[${elementCount(dims)}]`;
    return new DeferredElements(type, elementCount(dims), key, (start, target) =>
      this.#read(offset + start, target, until).catch(fail),
    );
  }

  #read(offset: number, target: Uint8Array, until: number): Promise<void> {
    const before = this.#last;
    this.#underway++;
    const read = this.#opened().then(async (file) => {
      if (file.isNear !== true) await before;
      await file.read(offset, target, until);
    });
    this.#last = Promise.allSettled([before, read]).then(() => {
      if (--this.#underway === 0 && this.#isLoaded) void this.#close().catch(() => undefined);
    });
    return read;
  }

  async #opened(): Promise<ReadableFile> {
    await this.#closing;
    return (this.#file ??= this.#again());
  }

  async #again(): Promise<ReadableFile> {
    const file = await this.#open();
    const { size, version, identity } = this.#seen;
    if (file.size === size && file.version === version && file.identity === identity) return file;
    await file.close();
    throw new InsituError(
      "external-data",
      `the file ${identity ?? ""} that weights are read from has changed since the model was loaded; load the model again`,
    );
  }

  /** Closes the file until something is wanted of it again, once nothing is under way. */
  close(): Promise<void> {
    this.#isLoaded = true;
    return this.#close();
  }

  #close(): Promise<void> {
    const closed = this.#last.then(async () => {
      const file = this.#file;
      this.#file = undefined;
      await (await file?.catch(() => undefined))?.close();
    });
    this.#closing = closed.catch(() => undefined);
    this.#last = this.#closing;
    return closed;
  }
}

/** Numbers of files that nobody can tell apart otherwise. */
let opened = 0;

/** The weights of one model that stay in their files. */
export class DeferredWeights {
  readonly #sources: WeightSource[] = [];
  readonly #byKey = new Map<string, DeferredElements>();
  readonly #count: (bytes: number) => void;
  /** Tells of bytes that were read. */
  onRead: (bytes: number) => void = () => undefined;

  /** `count` hears of the bytes of each, and throws where there are too many. */
  constructor(count: (bytes: number) => void) {
    this.#count = count;
  }

  /** The source for a file; undefined for one that is read from its start to its end. */
  sourceFor(file: ReadableFile, open: () => Promise<ReadableFile>): WeightSource | undefined {
    if (file.inOrder === true) return undefined;
    const source = new WeightSource(file, open);
    this.#sources.push(source);
    return source;
  }

  /** Takes a weight in: those of the same bytes are one. */
  add(elements: DeferredElements): DeferredElements {
    const before = this.#byKey.get(elements.key);
    if (before !== undefined) return before;
    this.#count(elements.byteLength);
    this.#byKey.set(elements.key, elements);
    return elements;
  }

  /** Closes the files until something is wanted of them again. */
  async close(): Promise<void> {
    await Promise.all(this.#sources.map((source) => source.close()));
  }
}

/**
 * A tensor whose elements come later. Its data are there for whoever looks: those that are not held are then told missing. Copies
 * made by spreading have them under `deferred` alone.
 */
export const deferredTensor = (tensor: Omit<ModelTensor, "data">, deferred: LaterElements): ModelTensor =>
  Object.defineProperty({ ...tensor, deferred }, "data", { get: () => deferred.elements, enumerable: false });

/** The model with the weights that no file has deferred all the same, so that nothing is made of them on the host. */
export function deferInMemory(model: Model): Model {
  const deferrable = deferrableWeights(model);
  return mapTensors(model, (tensor) => {
    if (!deferrable.has(tensor) || tensor.deferred !== undefined) return tensor;
    const { data, ...own } = tensor;
    if (data === undefined || Array.isArray(data) || own.type === "string") return tensor;
    return deferredTensor(own, DeferredElements.in(data, own.type, elementCount(own.dims)));
  });
}

/** The weights of a model that may stay in their files: large ones of the main graph that no caller feeds or is given. */
export function deferrableWeights({ graph }: Model): ReadonlySet<ModelTensor> {
  const named = new Set([...graph.inputs, ...graph.outputs].map(({ name }) => name));
  return new Set(
    graph.initializers.filter(
      ({ name, type, dims }) => elementCount(dims) >= leastDeferred && !alwaysRead.has(type) && !named.has(name),
    ),
  );
}
