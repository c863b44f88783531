/**
 * The element types of ONNX 1.23: their names, codes, widths and the array each is kept in.
 * Knows numbers and bytes, not tensors.
 */

/** Any array that tensor contents are kept in. */
export type Storage =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | string[];

/** A `Storage` made of bytes. */
export type ByteStorage = Exclude<Storage, string[]>;

/** The family an element type belongs to: decides how its elements are read and written. */
type ElementKind = "float" | "integer" | "bool" | "complex" | "string";

interface Traits {
  /** TensorProto.DataType */
  readonly code: number;
  readonly kind: ElementKind;
  /** Bits of one element in memory; 0 for strings, which are held by reference. */
  readonly bits: number;
  readonly signed: boolean;
}

const traits = (code: number, kind: ElementKind, bits: number, signed: boolean): Traits => ({
  code,
  kind,
  bits,
  signed,
});

/** The name of an ONNX element type, with `float32` and `float64` for ONNX's float and double. */
export type ElementType =
  | "float32"
  | "float64"
  | "float16"
  | "bfloat16"
  | "float8e4m3fn"
  | "float8e4m3fnuz"
  | "float8e5m2"
  | "float8e5m2fnuz"
  | "float8e8m0"
  | "float6e2m3"
  | "float6e3m2"
  | "float4e2m1"
  | "int64"
  | "uint64"
  | "int32"
  | "uint32"
  | "int16"
  | "uint16"
  | "int8"
  | "uint8"
  | "int4"
  | "uint4"
  | "int2"
  | "uint2"
  | "bool"
  | "complex64"
  | "complex128"
  | "string";

/** The array that holds the elements of each type: floats without an array of their own as bit patterns, bools as 0 and 1. */
export interface DataTypeMap {
  float32: Float32Array;
  float64: Float64Array;
  float16: Uint16Array;
  bfloat16: Uint16Array;
  float8e4m3fn: Uint8Array;
  float8e4m3fnuz: Uint8Array;
  float8e5m2: Uint8Array;
  float8e5m2fnuz: Uint8Array;
  float8e8m0: Uint8Array;
  float6e2m3: Uint8Array;
  float6e3m2: Uint8Array;
  float4e2m1: Uint8Array;
  int64: BigInt64Array;
  uint64: BigUint64Array;
  int32: Int32Array;
  uint32: Uint32Array;
  int16: Int16Array;
  uint16: Uint16Array;
  int8: Int8Array;
  uint8: Uint8Array;
  int4: Uint8Array;
  uint4: Uint8Array;
  int2: Uint8Array;
  uint2: Uint8Array;
  bool: Uint8Array;
  complex64: Float32Array;
  complex128: Float64Array;
  string: string[];
}

const table: Record<ElementType, Traits> = {
  float32: traits(1, "float", 32, true),
  uint8: traits(2, "integer", 8, false),
  int8: traits(3, "integer", 8, true),
  uint16: traits(4, "integer", 16, false),
  int16: traits(5, "integer", 16, true),
  int32: traits(6, "integer", 32, true),
  int64: traits(7, "integer", 64, true),
  string: traits(8, "string", 0, false),
  bool: traits(9, "bool", 8, false),
  float16: traits(10, "float", 16, true),
  float64: traits(11, "float", 64, true),
  uint32: traits(12, "integer", 32, false),
  uint64: traits(13, "integer", 64, false),
  complex64: traits(14, "complex", 64, true),
  complex128: traits(15, "complex", 128, true),
  bfloat16: traits(16, "float", 16, true),
  float8e4m3fn: traits(17, "float", 8, true),
  float8e4m3fnuz: traits(18, "float", 8, true),
  float8e5m2: traits(19, "float", 8, true),
  float8e5m2fnuz: traits(20, "float", 8, true),
  uint4: traits(21, "integer", 4, false),
  int4: traits(22, "integer", 4, true),
  float4e2m1: traits(23, "float", 4, true),
  float8e8m0: traits(24, "float", 8, false),
  uint2: traits(25, "integer", 2, false),
  int2: traits(26, "integer", 2, true),
  float6e2m3: traits(27, "float", 6, true),
  float6e3m2: traits(28, "float", 6, true),
};

/** Every element type. */
export const elementTypes: readonly ElementType[] = Object.keys(table) as ElementType[];

/** Width, kind and code of an element type. */
export const traitsOf = (type: ElementType): Traits => table[type];

const byCode = new Map<number, ElementType>(elementTypes.map((type) => [table[type].code, type]));

/** The element type of a TensorProto.DataType code, or undefined. */
export const elementTypeOfCode = (code: number): ElementType | undefined => byCode.get(code);

/** True if `name` is an element type's name. */
export const isElementType = (name: string): name is ElementType => Object.hasOwn(table, name);

/** ONNX's own spelling, as in `tensor(float)`. */
export function onnxSpelling(type: ElementType): string {
  return `tensor(${type === "float32" ? "float" : type === "float64" ? "double" : type})`;
}

/** Bytes that `count` elements take; packed types are rounded up to whole bytes. Strings count as 0. */
export const byteLengthOf = (type: ElementType, count: number): number => Math.ceil((count * table[type].bits) / 8);

/** True for the types of less than a byte, whose elements follow each other bit by bit, lowest bits first. */
export const isPacked = (type: ElementType): boolean => table[type].bits > 0 && table[type].bits < 8;

/** Entries of the type's storage array that `count` elements take: complex elements take two, packed ones a part. */
export function storageLengthOf(type: ElementType, count: number): number {
  if (table[type].kind === "complex") return count * 2;
  return isPacked(type) ? byteLengthOf(type, count) : count;
}

type ByteArrayConstructor = {
  new (length: number): ByteStorage;
  new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): ByteStorage;
  readonly BYTES_PER_ELEMENT: number;
  readonly name: string;
};

/** The typed-array class that holds elements of `type`; strings have none. */
export function arrayConstructorOf(type: Exclude<ElementType, "string">): ByteArrayConstructor {
  switch (type) {
    case "float32":
    case "complex64":
      return Float32Array;
    case "float64":
    case "complex128":
      return Float64Array;
    case "int8":
      return Int8Array;
    case "int16":
      return Int16Array;
    case "int32":
      return Int32Array;
    case "int64":
      return BigInt64Array;
    case "uint16":
    case "float16":
    case "bfloat16":
      return Uint16Array;
    case "uint32":
      return Uint32Array;
    case "uint64":
      return BigUint64Array;
    case "uint8":
    case "bool":
    case "float8e4m3fn":
    case "float8e4m3fnuz":
    case "float8e5m2":
    case "float8e5m2fnuz":
    case "float8e8m0":
    case "float6e2m3":
    case "float6e3m2":
    case "uint4":
    case "int4":
    case "float4e2m1":
    case "uint2":
    case "int2":
      return Uint8Array;
    default:
      return type satisfies never;
  }
}

/** A zeroed storage array for `count` elements (empty strings for strings). */
export function allocateStorage(type: ElementType, count: number): Storage {
  if (type === "string") return new Array<string>(count).fill("");
  return new (arrayConstructorOf(type))(storageLengthOf(type, count));
}
