/**
 * Weights that come to the host's memory while the model is looked at, planned and compiled: large ones of files that lie near. Their places are there
 * from the start, so that nothing is held twice; many reads are under way at once, so that they go on where the host is busy with other work. Tables of
 * which only rows are read stay in their files.
 */
import type { LastingFile, ReadableFile } from "../base/platform.js";
import { ArrivingElements, type SharedBytes, type ShareBytes } from "../tensor/arriving.js";
import type { LaterElements } from "../tensor/deferred.js";
import { byteLengthOf, type ByteStorage } from "../tensor/element-type.js";
import { RowElements } from "../tensor/rows.js";
import { elementCount } from "../tensor/view.js";
import type { Model, ModelTensor } from "./model.js";

/** Bytes of one read. */
const chunk = 2 ** 24;

/** Bytes that are asked for and not there at once: enough to go on with where the host is busy, and no longer a queue than others may wait behind. */
const mostUnderway = 2 ** 27;

/** A weight in a file and where it goes. */
export interface WantedWeight {
  readonly tensor: ModelTensor & { readonly type: ArrivingElements["type"] };
  readonly offset: number;
  readonly place: ByteStorage;
  /** False where others fill the place. */
  readonly fill: boolean;
  /** True where nobody else has the place. */
  readonly isAlone: boolean;
  /** True for one that may come while the model is looked at. */
  readonly mayWait: boolean;
  /** Throws what is to be said of a weight that cannot be read. */
  readonly fail: (error: unknown) => never;
}

/** Hears of bytes that were read, or that need not be. */
type Progress = (bytes: number) => void;

/** Bytes from which on a table stays in its file, where only rows of it are read. */
export const leastTable: number = 2 ** 24;

/** Those of one model. */
export class ArrivingWeights {
  readonly #tablesOf: (model: Model) => ReadonlySet<string>;
  readonly #elements: ArrivingElements[] = [];
  readonly #tables: RowElements[] = [];
  /** Files that rows are read from. */
  readonly #lasting: LastingFile[] = [];
  readonly #mayShare: (model: Model) => boolean;
  readonly #share: ShareBytes | undefined;
  /** Places that others wait for. */
  readonly #shared: SharedBytes[] = [];
  #reading: Promise<void> | undefined;
  #isStopped = false;

  /** `tablesOf` names the initializers of a model of which only rows are read; `share` gives places that other models of the same file have too, if they may. */
  constructor(
    tablesOf: (model: Model) => ReadonlySet<string>,
    mayShare: (model: Model) => boolean,
    share?: ShareBytes,
  ) {
    this.#tablesOf = tablesOf;
    this.#mayShare = mayShare;
    this.#share = share;
  }

  /** Places for what a model reads of a file that cannot be taken for another; undefined where there are none to share. */
  async share(
    model: Model,
    file: ReadableFile | undefined,
    ranges: readonly (readonly [name: string, range: string])[],
    sizes: readonly number[],
  ): Promise<SharedBytes | undefined> {
    if (this.#share === undefined || file?.version === undefined || sizes.length === 0) return undefined;
    if (!this.#mayShare(model)) return undefined;
    // What is a table to one model and a matrix to another is read in two ways.
    const tables = this.#tablesOf(model);
    const key = ranges.map(([name, range]) => `${range}${tables.has(name) ? " by rows" : ""}`).join();
    const places = await this.#share(`${file.version}: ${key}`, sizes);
    if (places !== undefined) this.#shared.push(places);
    return places;
  }

  /** Tells others whether all that they wait for was read. */
  settle(isFilled: boolean): void {
    for (const { settle } of this.#shared.splice(0)) settle?.(isFilled);
  }

  /**
   * Reads those of some weights of a file that cannot wait, and begins to read the others; tables of rows stay where they are. The file is closed once
   * all have come. Gives the elements of those that come later.
   */
  async bring(
    model: Model,
    file: ReadableFile,
    wanted: readonly WantedWeight[],
    progress: Progress,
  ): Promise<ReadonlyMap<ModelTensor, LaterElements>> {
    const later = new Map<ModelTensor, LaterElements>();
    try {
      await this.#read(
        file,
        wanted.filter(({ mayWait }) => !mayWait),
        progress,
      );
      const large = wanted.filter(({ mayWait }) => mayWait);
      for (const [tensor, table] of this.#leave(model, file, large)) {
        later.set(tensor, table);
        progress(table.place.byteLength);
      }
      const coming = large.filter(({ tensor }) => !later.has(tensor));
      for (const { tensor, place } of coming) {
        const elements = new ArrivingElements(tensor.type, `"${tensor.name}"`, place, () => this.arrived());
        this.#elements.push(elements);
        later.set(tensor, elements);
      }
      this.#reading = this.#readAndClose(file, coming, progress, this.#reading);
      // Whoever waits for them is told; until then nobody has to.
      this.#reading.catch(() => undefined);
      return later;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Those of some weights that stay in their file as tables of rows. */
  #leave(model: Model, file: ReadableFile, wanted: readonly WantedWeight[]): ReadonlyMap<ModelTensor, RowElements> {
    const elements = new Map<ModelTensor, RowElements>();
    const names = this.#tablesOf(model);
    const tables = wanted.filter(
      ({ tensor: { name, type, dims }, place, isAlone }) =>
        isAlone && names.has(name) && place.byteLength >= leastTable && isOfBytes(type, elementCount(dims) / dims[0]),
    );
    const source = tables.length === 0 ? undefined : file.lasting?.();
    if (source === undefined) return elements;
    this.#lasting.push(source);
    for (const { tensor, offset, place, fail } of tables) {
      const read = (start: number, target: Uint8Array): void => {
        try {
          source.readNow(offset + start, target);
        } catch (error) {
          fail(error);
        }
      };
      elements.set(tensor, new RowElements(tensor.type, tensor.dims, `"${tensor.name}"`, place, read));
    }
    this.#tables.push(...elements.values());
    return elements;
  }

  async #readAndClose(
    file: ReadableFile,
    wanted: readonly WantedWeight[],
    progress: Progress,
    before: Promise<void> | undefined,
  ): Promise<void> {
    try {
      await before;
      await this.#read(file, wanted, progress);
    } finally {
      await file.close();
    }
  }

  /** Reads weights, many at once. */
  async #read(file: ReadableFile, wanted: readonly WantedWeight[], progress: Progress): Promise<void> {
    const underway = new Set<Promise<void>>();
    let [bytes, failure] = [0, undefined as { readonly error: unknown } | undefined];
    const start = (target: Uint8Array, offset: number, fail: (error: unknown) => never): void => {
      bytes += target.length;
      const read = file
        .read(offset, target)
        .then(() => (this.#isStopped ? undefined : progress(target.length)), fail)
        .catch((error: unknown) => void (failure ??= { error }))
        .finally(() => {
          bytes -= target.length;
          underway.delete(read);
        });
      underway.add(read);
    };
    for (const { offset, place, fill, fail } of wanted) {
      const target = new Uint8Array(place.buffer, place.byteOffset, place.byteLength);
      if (!fill) progress(target.length);
      for (let at = 0; fill && at < target.length; at += chunk) {
        while (bytes >= mostUnderway) await Promise.race(underway);
        if (this.#isStopped || failure !== undefined) break;
        start(target.subarray(at, at + chunk), offset + at, fail);
      }
    }
    // What was begun writes to memory that is given back afterwards, also where it has failed.
    await Promise.all(underway);
    if (failure !== undefined) throw failure.error;
  }

  /** Waits for all of them. */
  async arrived(): Promise<void> {
    await this.#reading;
    for (const each of this.#elements.splice(0)) each.arrived();
  }

  /** Ends reading: nothing is written once this resolves, and no rows can be had. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const file of this.#lasting.splice(0)) file.close();
    await this.#reading?.catch(() => undefined);
    this.settle(false);
  }

  /** What is to be told of weights that stayed in their files. */
  describe(): readonly string[] {
    return this.#tables.map((table) => table.describe());
  }
}

/** True where so many elements are whole bytes. */
const isOfBytes = (type: ArrivingElements["type"], count: number): boolean =>
  8 * byteLengthOf(type, count) === byteLengthOf(type, 8 * count);
