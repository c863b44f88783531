/**
 * The graph of a model without its large weights: the file is read around them, so that a model can be looked at where its weights are gigabytes away.
 * What is left out becomes a reference to another file, which nobody opens: stand-ins take its place (stand-ins.ts).
 */
import { InsituError } from "../base/error.js";
import type { ReadableFile } from "../base/platform.js";
import { byteLengthOf, elementTypeOfCode } from "../tensor/element-type.js";
import type { Model } from "./model.js";
import { concatenate } from "./pieces.js";
import { readModel } from "./read.js";

/** Elements up to which a constant is read: inference looks into it. */
export const mostElements: number = 2 ** 16;

/** Bytes of an initializer, or of its data, from which on it is looked at more closely. */
const largeBytes = 2 ** 14;

/** Bytes that are read at once: few behind weights that were passed over, more while reading goes on. */
const [leastWindow, mostWindow] = [2 ** 12, 2 ** 18];

/** Fields of ONNX's messages, by their numbers. */
const [modelGraph, graphInitializer] = [7, 5];
const [tensorDims, tensorType, tensorExternal, tensorLocation] = [1, 2, 13, 14];
const tensorData: ReadonlySet<number> = new Set([4, 5, 7, 9, 10, 11]);

/** Types whose contents may decide shapes, by ONNX's numbers: int32, int64, string. */
const alwaysRead: ReadonlySet<number> = new Set([6, 7, 8]);

/** Where weights would lie that were left out. */
export const elsewhere = "left-out";

/** The location of weights that were left out and can be read later: the model's own file. No file has this name. */
export const inside = "\0";

/** Fields whose bytes are the elements as they lie in memory: float_data, raw_data, double_data. */
const asInMemory: ReadonlySet<number> = new Set([4, 9, 10]);

/** What is left out. */
interface LeftOut {
  /** Elements from which on. */
  readonly from: number;
  /** True if it is to be read later: then only what can be, and it says where. */
  readonly isReadLater: boolean;
}

/** Reads the graph of a file. `path` is kept in the model. */
export const readGraphOnly = (file: ReadableFile, path: string): Promise<Model> =>
  readAround(file, path, { from: mostElements + 1, isReadLater: false });

/** The same with weights of so many elements or more to be read later: their location is `inside`. */
export const readAroundWeights = (file: ReadableFile, path: string, from: number): Promise<Model> =>
  readAround(file, path, { from, isReadLater: true });

async function readAround(file: ReadableFile, path: string, leftOut: LeftOut): Promise<Model> {
  const source = new Window(file);
  const pieces: Uint8Array[] = [];
  try {
    for (let at = 0; at < file.size;) {
      const field = await source.field(at, file.size);
      if (field.number === modelGraph && field.isMessage)
        pieces.push(...message(modelGraph, await graphPieces(source, field.content, field.end, leftOut)));
      else pieces.push(await source.bytes(at, field.end));
      at = field.end;
    }
  } catch (cause) {
    if (cause instanceof InsituError) throw cause;
    // What this reader does not understand the other one explains: it names what a file is that is no model.
    const beginning = new Uint8Array(Math.min(file.size, 512));
    await file.read(0, beginning);
    readModel(beginning, { path });
    throw new InsituError("invalid-model", `${path}: the bytes cannot be read as an ONNX model`, { cause });
  }
  return readModel(concatenate(pieces), { owned: true, path });
}

async function graphPieces(source: Window, start: number, end: number, leftOut: LeftOut): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  for (let at = start; at < end;) {
    const field = await source.field(at, end);
    const isLarge = field.number === graphInitializer && field.isMessage && field.end - field.content > largeBytes;
    const tensor = isLarge ? await withoutData(source, field.content, field.end, leftOut) : undefined;
    if (tensor === undefined) pieces.push(await source.bytes(at, field.end));
    else pieces.push(...message(graphInitializer, tensor));
    at = field.end;
  }
  return pieces;
}

/** A tensor whose data stay where they are; undefined for one that must be read. */
async function withoutData(
  source: Window,
  start: number,
  end: number,
  { from, isReadLater }: LeftOut,
): Promise<Uint8Array[] | undefined> {
  const pieces: Uint8Array[] = [];
  const [dims, data]: [number[], Field[]] = [[], []];
  let type = 0;
  for (let at = start; at < end;) {
    const field = await source.field(at, end);
    if (tensorData.has(field.number) && field.isMessage && field.end - field.content > largeBytes) data.push(field);
    else {
      const bytes = await source.bytes(at, field.end);
      if (field.number === tensorDims) dims.push(...numbersIn(bytes, field.isMessage));
      if (field.number === tensorType) [type] = numbersIn(bytes, false);
      if (field.number === tensorLocation) return undefined;
      pieces.push(bytes);
    }
    at = field.end;
  }
  const count = dims.reduce((product, dim) => product * dim, 1);
  if (data.length !== 1 || alwaysRead.has(type) || count < from) return undefined;
  const [{ number, content, end: dataEnd }] = data;
  const known = elementTypeOfCode(type);
  // What cannot be read as it lies is left to the reader of whole files, which also says what is wrong with it.
  const canBeReadLater =
    known !== undefined && asInMemory.has(number) && dataEnd - content === byteLengthOf(known, count);
  if (isReadLater && !canBeReadLater) return undefined;
  const entry = (key: string, value: string): Uint8Array[] =>
    message(tensorExternal, [...message(1, [text(key)]), ...message(2, [text(value)])]);
  return [
    ...pieces,
    ...entry("location", isReadLater ? inside : elsewhere),
    ...(isReadLater ? entry("offset", String(content)) : []),
    ...entry("length", String(dataEnd - content)),
    Uint8Array.of(tensorLocation << 3, 1),
  ];
}

const text = (value: string): Uint8Array => new TextEncoder().encode(value);

/** A message as a field: its tag, its length, its content. */
function message(number: number, content: readonly Uint8Array[]): Uint8Array[] {
  const length = content.reduce((sum, { length: bytes }) => sum + bytes, 0);
  return [Uint8Array.from([...varint((number << 3) | 2), ...varint(length)]), ...content];
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return [...bytes, rest];
}

/** The whole numbers of a field, tag and all: one, or packed ones. */
function numbersIn(bytes: Uint8Array, isPacked: boolean): number[] {
  const numbers: number[] = [];
  let at = 0;
  const next = (): number => {
    let [value, factor] = [0, 1];
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
      factor *= 128;
    }
  };
  next();
  if (isPacked) next();
  while (at < bytes.length) numbers.push(next());
  return numbers;
}

interface Field {
  readonly number: number;
  /** True if it has a length: a message, text, bytes, packed numbers. */
  readonly isMessage: boolean;
  /** Where its content begins and ends. */
  readonly content: number;
  readonly end: number;
}

/** A file that is looked at through a window. */
class Window {
  readonly #file: ReadableFile;
  #bytes: Uint8Array = new Uint8Array();
  #start = 0;
  #width = leastWindow;

  constructor(file: ReadableFile) {
    this.#file = file;
  }

  /** The bytes of a range. */
  async bytes(start: number, end: number): Promise<Uint8Array> {
    await this.#show(start, end);
    return this.#bytes.slice(start - this.#start, end - this.#start);
  }

  /** The field at a place in a message that ends at `limit`. */
  async field(at: number, limit: number): Promise<Field> {
    await this.#show(at, Math.min(at + 20, this.#file.size));
    let place = at - this.#start;
    const next = (): number => {
      let [value, factor] = [0, 1];
      for (;;) {
        const byte = this.#bytes[place++];
        if (byte === undefined || factor > 2 ** 56) throw new Error("a number without an end");
        value += (byte & 127) * factor;
        if (byte < 128) return value;
        factor *= 128;
      }
    };
    const tag = next();
    const [number, wire] = [Math.floor(tag / 8), tag % 8];
    const fixed = new Map([
      [1, 8],
      [5, 4],
    ]).get(wire);
    if (number === 0 || (wire !== 0 && wire !== 2 && fixed === undefined)) throw new Error("no field");
    if (wire === 0) next();
    const length = wire === 2 ? next() : (fixed ?? 0);
    const content = this.#start + place;
    if (content + length > limit) throw new Error("a field that is longer than what it is in");
    return { number, isMessage: wire === 2, content, end: content + length };
  }

  async #show(start: number, end: number): Promise<void> {
    const shown = this.#start + this.#bytes.length;
    if (start >= this.#start && end <= shown) return;
    // Reading on widens the window, a jump narrows it.
    this.#width =
      start === shown || (start < shown && start >= this.#start) ? Math.min(2 * this.#width, mostWindow) : leastWindow;
    const bytes = new Uint8Array(Math.min(Math.max(end - start, this.#width), this.#file.size - start));
    await this.#file.read(start, bytes);
    this.#bytes = bytes;
    this.#start = start;
  }
}
