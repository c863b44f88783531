/**
 * The elements of a TensorProto as typed storage: raw bytes without a copy where their place allows, typed fields
 * decoded entry by entry. Allocates only after the entries were counted in the bytes.
 */
import {
  allocateStorage,
  arrayConstructorOf,
  type ByteStorage,
  type ElementType,
  type Storage,
  storageLengthOf,
  traitsOf,
} from "../tensor/element-type.js";
import { setPackedBits } from "../tensor/packed.js";
import type { Cursor } from "./cursor.js";
import { fieldTable } from "./fields.js";
import { TensorProtoSchema } from "./messages.gen.js";

/** The fields of a TensorProto. */
export const tensorFields: ReturnType<typeof fieldTable<keyof typeof TensorProtoSchema.field>> =
  fieldTable(TensorProtoSchema);

/** The fields that hold elements one by one. */
export type TypedField = "floatData" | "int32Data" | "stringData" | "int64Data" | "doubleData" | "uint64Data";

/** Bytes of one entry in a typed field; 0 for varints. */
export const entryWidth: Readonly<Record<Exclude<TypedField, "stringData">, 0 | 4 | 8>> = {
  floatData: 4,
  doubleData: 8,
  int32Data: 0,
  int64Data: 0,
  uint64Data: 0,
};

/** The typed field that ONNX gives an element type. */
export function typedFieldOf(type: ElementType): TypedField {
  switch (type) {
    case "float32":
    case "complex64":
      return "floatData";
    case "float64":
    case "complex128":
      return "doubleData";
    case "int64":
      return "int64Data";
    case "uint64":
    case "uint32":
      return "uint64Data";
    case "string":
      return "stringData";
    default:
      return "int32Data";
  }
}

/** Elements of 6 bits are packed in raw_data alone: in int32_data each has an entry of its own. */
const isUnpacked = (type: ElementType): boolean => traitsOf(type).bits === 6;

/** Entries that `count` elements take in their typed field. */
export const typedLengthOf = (type: ElementType, count: number): number =>
  isUnpacked(type) ? count : storageLengthOf(type, count);

/** A run of little-endian elements inside the file: the field's tag, its content and the content's length. */
export interface Run {
  readonly start: number;
  readonly content: number;
  readonly length: number;
}

const empty = new Map<ElementType, Storage>();

/** Storage for a tensor without elements. */
export function emptyStorage(type: ElementType): Storage {
  let storage = empty.get(type);
  if (storage === undefined) empty.set(type, (storage = allocateStorage(type, 0)));
  return storage;
}

/** Runs shorter than this are copied rather than moved: their tag and length leave too little room, and views cost more. */
const shortRun = 128;

const scratch = new Uint8Array(shortRun);

/**
 * A run of bytes as storage. Shares the file's memory where the run is aligned, or where the file is ours and the run
 * can be moved down over its own tag and length; copies it otherwise.
 */
export function storageOfRun(
  cursor: Cursor,
  type: Exclude<ElementType, "string">,
  count: number,
  run: Run,
): ByteStorage {
  const constructor = arrayConstructorOf(type);
  const { bytes } = cursor.source;
  const excess = (bytes.byteOffset + run.content) % constructor.BYTES_PER_ELEMENT;
  const length = storageLengthOf(type, count);
  if (excess === 0) return new constructor(bytes.buffer, bytes.byteOffset + run.content, length);
  if (run.length < shortRun) {
    for (let i = 0; i < run.length; i++) scratch[i] = bytes[run.content + i];
    return new constructor(scratch.buffer, 0, length).slice();
  }
  // The writer takes a moved field's number from a tag of one byte.
  if (cursor.owned && run.content - excess >= run.start && bytes[run.start] < 0x80) {
    cursor.source.shift(run.start, run.content, run.length, excess);
    return new constructor(bytes.buffer, bytes.byteOffset + run.content - excess, length);
  }
  return new constructor(bytes.slice(run.content, run.content + run.length).buffer, 0, length);
}

/** Decodes every entry of a typed field of the message from `start` to `end`, whose entries were counted before. */
export function storageOfTypedField(
  cursor: Cursor,
  start: number,
  end: number,
  type: ElementType,
  count: number,
): Storage {
  const field = typedFieldOf(type);
  const storage = allocateStorage(type, count);
  let index = 0;
  const read = entryReader(cursor, type, storage);
  const outer = cursor.end;
  cursor.position = start;
  cursor.end = end;
  for (let name = cursor.next(tensorFields); name !== undefined; name = cursor.next(tensorFields)) {
    if (name !== field) cursor.skip();
    else if (field === "stringData") read(index++);
    else cursor.forEachEntry(() => read(index++));
  }
  cursor.end = outer;
  return storage;
}

function entryReader(cursor: Cursor, type: ElementType, storage: Storage): (index: number) => void {
  if (Array.isArray(storage)) {
    return (index) => {
      storage[index] = cursor.string(`element ${index}`);
    };
  }
  if (storage instanceof BigInt64Array || storage instanceof BigUint64Array) {
    const halves = new Int32Array(storage.buffer);
    return (index) => {
      halves[index * 2] = cursor.varint();
      halves[index * 2 + 1] = cursor.high;
    };
  }
  if (storage instanceof Float32Array) {
    return (index) => {
      storage[index] = cursor.float();
    };
  }
  if (storage instanceof Float64Array) {
    return (index) => {
      storage[index] = cursor.double();
    };
  }
  if (isUnpacked(type)) {
    const { bits } = traitsOf(type);
    return (index) => setPackedBits(storage as Uint8Array, bits, index, cursor.varint());
  }
  return (index) => {
    storage[index] = cursor.varint();
  };
}
