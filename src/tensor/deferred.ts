/**
 * Elements that lie in a file until somebody wants them: weights that a device computes on, of which the host holds none. A view of them has
 * type, shape and strides as any other; whoever looks into it before they are held is told which ones are missing.
 */
import { InsituError } from "../base/error.js";
import {
  arrayConstructorOf,
  type ByteStorage,
  byteLengthOf,
  type ElementType,
  storageLengthOf,
} from "./element-type.js";
import { rowMajorStrides, View } from "./view.js";

/** Elements that can be waited for. */
export interface LaterElements {
  readonly key: string;
  /** The elements. Throws `AbsentElements` where they are not held. */
  readonly elements: ByteStorage;
  /** All of them under a shape. */
  viewAs(shape: readonly number[]): View;
  /** Brings them to the host, where they stay. */
  hold(): Promise<void>;
}

/** What is thrown where elements are looked at that nobody brought: whoever can wait holds them and begins again. */
export class AbsentElements extends InsituError {
  readonly elements: LaterElements;

  constructor(elements: LaterElements) {
    super("internal", `elements of ${elements.key} were looked at before they were read`);
    this.elements = elements;
  }
}

/** Fills `target` with the bytes from `start` on. */
type ReadBytes = (start: number, target: Uint8Array) => Promise<void>;

/** Elements in row-major order that can be read, in pieces or as a whole, as often as it takes. */
export class DeferredElements implements LaterElements {
  readonly type: Exclude<ElementType, "string">;
  readonly size: number;
  readonly byteLength: number;
  /** The same for two that have the same bytes, and for no others. In the order of keys, files are read from their start to their end. */
  readonly key: string;
  /** Reads bytes of them. */
  readonly read: ReadBytes;
  /** Stands for their storage where views are compared: it has no bytes, but tells them apart. */
  readonly token: Uint8Array = new Uint8Array(0);
  /** True if they lie on the host after all, since no file has them. */
  readonly isOnHost: boolean;
  /** True if all of them are in files: whoever has the same key has the same elements. */
  readonly isInFiles: boolean;
  #held: ByteStorage | undefined;

  constructor(
    type: Exclude<ElementType, "string">,
    size: number,
    key: string,
    read: ReadBytes,
    isOnHost = false,
    isInFiles: boolean = !isOnHost,
  ) {
    this.type = type;
    this.size = size;
    this.byteLength = byteLengthOf(type, size);
    this.key = key;
    this.read = read;
    this.isOnHost = isOnHost;
    this.isInFiles = isInFiles;
  }

  /** Elements that lie on the host and have no file: nothing is made of them there, as if they had one. */
  static in(memory: ByteStorage, type: Exclude<ElementType, "string">, size: number): DeferredElements {
    const bytes = new Uint8Array(memory.buffer, memory.byteOffset, memory.byteLength);
    const read: ReadBytes = async (at, target) => target.set(bytes.subarray(at, at + target.length));
    return new DeferredElements(type, size, `memory ${numberOf(memory)}`, read, true);
  }

  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  get elements(): ByteStorage {
    if (this.#held === undefined) throw new AbsentElements(this);
    return this.#held;
  }

  viewAs(shape: readonly number[]): View {
    return new DeferredView(this, shape);
  }

  /** All of them, in storage of the caller's own. */
  async load(): Promise<ByteStorage> {
    const { buffer } = View.allocate("uint8", [Math.ceil(this.byteLength / 8) * 8]).data as Uint8Array;
    await this.read(0, new Uint8Array(buffer, 0, this.byteLength));
    return new (arrayConstructorOf(this.type))(buffer, 0, storageLengthOf(this.type, this.size));
  }

  async hold(): Promise<void> {
    this.#held ??= await this.load();
  }
}

/** A view of elements that may not be there. */
export class DeferredView extends View {
  readonly elements: DeferredElements;

  constructor(
    elements: DeferredElements,
    shape: readonly number[],
    offset = 0,
    strides: readonly number[] = rowMajorStrides(shape),
  ) {
    super(elements.type, shape, elements.token, offset, strides);
    this.elements = elements;
  }

  /** The bytes, where they are held. Throws `AbsentElements` where they are not. */
  override get data(): ByteStorage {
    return this.elements.elements;
  }

  override show(shape: readonly number[], offset: number = this.offset, strides?: readonly number[]): View {
    return new DeferredView(this.elements, shape, offset, strides);
  }

  /** True if its elements, in row-major order, are all there are. */
  get isWhole(): boolean {
    return this.offset === 0 && this.contiguous && this.size === this.elements.size;
  }

  /** The same for two views that have the same elements in the same order. */
  get key(): string {
    return this.isWhole
      ? this.elements.key
      : `${this.elements.key} [${this.shape.join()}] from ${this.offset} by ${this.strides.join()}`;
  }
}

/** A view whose elements are not on the host; undefined for every other. */
export const absentView = (view: View): DeferredView | undefined =>
  view instanceof DeferredView && !view.elements.isHeld ? view : undefined;

/** Does work; where it looks at elements that are absent, they are held from then on and the work begins anew. */
export async function holding<T>(work: () => T | Promise<T>): Promise<T> {
  for (;;)
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof AbsentElements)) throw error;
      await error.elements.hold();
    }
}

const numbers = new WeakMap<object, number>();
let count = 0;

function numberOf(memory: object): number {
  if (!numbers.has(memory)) numbers.set(memory, count++);
  return numbers.get(memory)!;
}

/** What a part of something joined is read from, and its key. */
function sourceOf(part: View): { readonly key: string; readonly read: ReadBytes } {
  const absent = absentView(part);
  if (absent !== undefined) {
    const start = byteLengthOf(part.type, part.offset);
    return { key: absent.key, read: (at, target) => absent.elements.read(start + at, target) };
  }
  const { buffer, byteOffset } = part.data as ByteStorage;
  const bytes = new Uint8Array(buffer, byteOffset + byteLengthOf(part.type, part.offset), part.byteLength);
  return {
    key: `memory ${numberOf(part.buffer)} [${part.shape.join()}] from ${part.offset}`,
    read: async (at, target) => target.set(bytes.subarray(at, at + target.length)),
  };
}

/** Runs up to this many bytes are copied one by one. */
const shortRun = 32;

/**
 * Views without gaps put together, of which one at least is absent: so many elements of each in turn, over and over. Undefined where that
 * cannot be read in bytes.
 */
export function joinAbsent(
  parts: readonly View[],
  runs: readonly number[],
  shape: readonly number[],
): View | undefined {
  const { type } = parts[0];
  const inBytes = runs.map((run) => byteLengthOf(type, run));
  const isOfBytes = ({ offset, contiguous }: View, at: number): boolean =>
    contiguous &&
    [offset, runs[at]].every((elements) => byteLengthOf(type, 8 * elements) === 8 * byteLengthOf(type, elements));
  if (type === "string" || !parts.every(isOfBytes)) return undefined;
  const sources = parts.map(sourceOf);
  const isOnHost = parts.every((part) => absentView(part)?.elements.isOnHost ?? true);
  const isInFiles = parts.every((part) => absentView(part)?.elements.isInFiles === true);
  const size = parts.reduce((sum, part) => sum + part.size, 0);
  const key = `${sources.map((source) => source.key).join(" & ")} by ${inBytes.join()}`;
  return new DeferredView(
    new DeferredElements(type, size, key, joinedReader(sources, inBytes), isOnHost, isInFiles),
    shape,
  );
}

/** Reads what lies in runs of several sources in turn. */
function joinedReader(sources: readonly { readonly read: ReadBytes }[], runs: readonly number[]): ReadBytes {
  const period = runs.reduce((sum, run) => sum + run, 0);
  const starts = runs.map((_, at) => runs.slice(0, at).reduce((sum, run) => sum + run, 0));
  return async (start, target) => {
    const [first, end] = [Math.floor(start / period), Math.ceil((start + target.length) / period)];
    const bring = async (read: ReadBytes, at: number): Promise<void> => {
      const run = runs[at];
      /** Bytes of this source that come before a byte of the whole, which lies in a round. */
      const before = (byte: number, round: number): number =>
        round * run + Math.min(run, Math.max(0, byte - round * period - starts[at]));
      const [from, to] = [before(start, first), before(start + target.length, end - 1)];
      /** Where a byte of a round's run goes. */
      const placeOf = (byte: number, round: number): number =>
        round * period + starts[at] + (byte - round * run) - start;
      const own = run >= atOnce ? undefined : (spare.pop() ?? new Uint8Array(atOnce));
      for (let low = from; low < to;) {
        const round = Math.floor(low / run);
        const high = Math.min(own === undefined ? (round + 1) * run : low + atOnce, to);
        if (own === undefined) {
          const place = placeOf(low, round);
          await read(low, target.subarray(place, place + high - low));
        } else {
          await read(low, own.subarray(0, high - low));
          for (let inner = round; inner * run < high; inner++) {
            const [begin, past] = [Math.max(inner * run, low), Math.min((inner + 1) * run, high)];
            lay(own, begin - low, target, placeOf(begin, inner), past - begin);
          }
        }
        low = high;
      }
      if (own !== undefined && spare.length < mostSpare) spare.push(own);
    };
    // All are over before the target is somebody else's.
    const ended = await Promise.allSettled(sources.map(({ read }, at) => bring(read, at)));
    for (const each of ended) if (each.status === "rejected") throw each.reason;
  };
}

/** Bytes of a source that are read before they are laid where they belong; longer runs are read there at once. */
const atOnce = 2 ** 19;

/** Memory for them that nobody uses, used again: what is thrown away lies about until the collector comes. */
const spare: Uint8Array[] = [];
const mostSpare = 8;

function lay(from: Uint8Array, source: number, to: Uint8Array, target: number, bytes: number): void {
  if (bytes > shortRun) to.set(from.subarray(source, source + bytes), target);
  else for (let i = 0; i < bytes; i++) to[target + i] = from[source + i];
}
