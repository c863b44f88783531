/** What a tensor can be made of: which arrays stand for which element type, and their conversion to its storage. Knows no dims. */
import { type BuiltInError, InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import { arrayConstructorOf, type DataTypeMap, type ElementType, isPacked, type Storage } from "./element-type.js";
import { encodeFloat16, isSmallFloat } from "./float.js";
import { largestByteLength } from "./view.js";

/** What a tensor can be made of: its storage array, plain numbers, bigints for 64-bit integers, or booleans for bool. */
export type TensorData =
  | Storage
  | readonly number[]
  | readonly bigint[]
  | readonly boolean[]
  | readonly string[]
  | Uint8ClampedArray;

/** What a tensor of type T can be made of. */
export type DataFor<T extends ElementType> = T extends "string"
  ? readonly string[]
  : T extends "bool"
    ? Uint8Array | readonly boolean[] | readonly number[]
    : T extends "int64" | "uint64"
      ? DataTypeMap[T] | readonly bigint[] | readonly number[]
      : T extends "uint8"
        ? Uint8Array | Uint8ClampedArray | readonly number[]
        : T extends "int4"
          ? Uint8Array | Int8Array
          : DataTypeMap[T] | readonly number[];

/** The element type that an array stands for by itself. */
export type TypeOfData<D> = D extends Float32Array
  ? "float32"
  : D extends Float64Array
    ? "float64"
    : D extends Int8Array
      ? "int8"
      : D extends Uint8Array | Uint8ClampedArray
        ? "uint8"
        : D extends Int16Array
          ? "int16"
          : D extends Uint16Array
            ? "uint16"
            : D extends Int32Array
              ? "int32"
              : D extends Uint32Array
                ? "uint32"
                : D extends BigInt64Array
                  ? "int64"
                  : D extends BigUint64Array
                    ? "uint64"
                    : D extends readonly string[]
                      ? "string"
                      : D extends readonly boolean[]
                        ? "bool"
                        : ElementType;

/** Throws what the constructor says of arguments that make no tensor. */
export function refuse(message: string, as?: BuiltInError): never {
  throw new InsituError("invalid-argument", `Tensor: ${message}`, as === undefined ? {} : { as });
}

/** The same for data that cannot be a tensor's. */
const refuseData = (message: string): never => refuse(message, "TypeError");

/** What typed arrays say of themselves, whatever their class adds: also of another realm, of which `instanceof` knows nothing. */
const typedArrays = Object.getPrototypeOf(Uint8Array.prototype) as object;

/** The class of a typed array, `Array`, or what else a value is in words. */
function classOf(data: unknown): string {
  const name: unknown = Reflect.get(typedArrays, Symbol.toStringTag, data);
  // Where engines have no Float16Array, one may be written as a Uint16Array of that name.
  if (name === "Uint16Array" && Object.prototype.toString.call(data) === "[object Float16Array]") return "Float16Array";
  if (typeof name === "string") return name;
  return Array.isArray(data) ? "Array" : typeof data === "object" && data !== null ? "Object" : valueText(data);
}

/** Entries of a storage array now: none once its buffer was detached, or has become too short for it. */
export const entriesOf = (storage: Storage): number =>
  Array.isArray(storage) ? storage.length : (Reflect.get(typedArrays, "length", storage) as number);

/** `a Float32Array`, `an Int8Array`; what is no class stays as it is. */
const withArticle = (name: string): string =>
  /^[A-Z]/.test(name) ? `${/^[AEIO]/.test(name) ? "an" : "a"} ${name}` : name;

const typeOfClass: ReadonlyMap<string, ElementType> = new Map([
  ["Float16Array", "float16"],
  ["Float32Array", "float32"],
  ["Float64Array", "float64"],
  ["Int8Array", "int8"],
  ["Uint8Array", "uint8"],
  ["Uint8ClampedArray", "uint8"],
  ["Int16Array", "int16"],
  ["Uint16Array", "uint16"],
  ["Int32Array", "int32"],
  ["Uint32Array", "uint32"],
  ["BigInt64Array", "int64"],
  ["BigUint64Array", "uint64"],
]);

/** The element type that an untyped constructor argument stands for. */
export function typeOfData(data: unknown): ElementType {
  if (!Array.isArray(data)) {
    return typeOfClass.get(classOf(data)) ?? refuseData(`data must be a typed array or an array, got ${classOf(data)}`);
  }
  switch (typeof data[0]) {
    case "string":
      return "string";
    case "boolean":
      return "bool";
    case "undefined":
      return refuseData("an empty array needs its type: new Tensor(type, data, dims)");
    default:
      return refuseData(`an array of ${typeof data[0]}s needs its type: new Tensor(type, data, dims)`);
  }
}

/** Throws where an array that stands for strings holds something else. */
export function checkStrings(data: readonly unknown[]): void {
  const odd = data.findIndex((element) => typeof element !== "string");
  if (odd >= 0) refuseData(`data of type string must be strings, got ${typeof data[odd]} at ${odd}`);
}

/** Arrays whose bytes are those of a type that another class stands for; onnxruntime has int4 in an Int8Array. */
const sameBytes: ReadonlyMap<string, ElementType> = new Map([
  ["Uint8ClampedArray", "uint8"],
  ["Float16Array", "float16"],
  ["Int8Array", "int4"],
]);

/** The caller's own array where it is of the right class, its bytes where another class has the same ones, else a converted copy. */
export function toStorage(type: ElementType, data: TensorData): Storage {
  if (data === undefined || data === null) return refuseData(`data is missing for type ${type}`);
  const given = classOf(data);
  if (type === "string") {
    if (!Array.isArray(data))
      return refuseData(`data of type string must be an array of strings, got ${withArticle(given)}`);
    checkStrings(data);
    return data as string[];
  }
  const constructor = arrayConstructorOf(type);
  if (given === constructor.name) return data as Storage;
  if (sameBytes.get(given) === type) {
    const { buffer, byteOffset } = data as Uint8ClampedArray;
    const length = entriesOf(data as Storage);
    // A buffer that was detached, or has shrunk, shows nothing.
    return length === 0 ? new constructor(0) : new constructor(buffer, byteOffset, length);
  }
  if (!Array.isArray(data)) {
    return refuseData(`data of type ${type} must be ${withArticle(constructor.name)}, got ${withArticle(given)}`);
  }
  if (data.length > largestByteLength)
    refuse(`${data.length} entries of data are more than a tensor can have`, "RangeError");
  // Plain numbers for float16 are values, as where JavaScript has a Float16Array; for the others they could be bit patterns as well.
  if (type === "float16") return Uint16Array.from(data, (value, at) => encodeFloat16(numberOf(type, value, at)));
  if (isSmallFloat(type) || isPacked(type)) {
    return refuseData(
      `data of type ${type} must be its bit patterns in ${withArticle(constructor.name)}, not plain numbers`,
    );
  }
  if (type === "int64" || type === "uint64") {
    const values = Array.from(data as readonly unknown[], (value, at) => bigintOf(type, value, at));
    return type === "int64" ? BigInt64Array.from(values) : BigUint64Array.from(values);
  }
  const target = new constructor(data.length);
  for (let i = 0; i < data.length; i++) {
    const value = numberOf(type, data[i], i);
    target[i] = type === "bool" ? Number(value !== 0) : value;
  }
  return target;
}

function numberOf(type: ElementType, value: unknown, at: number): number {
  if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") return Number(value);
  return refuseData(`data of type ${type} must be numbers, got ${typeof value} at ${at}`);
}

function bigintOf(type: ElementType, value: unknown, at: number): bigint {
  if (typeof value === "bigint" || typeof value === "boolean") return BigInt(value);
  if (typeof value === "number" && Number.isInteger(value)) return BigInt(value);
  return refuseData(
    `data of type ${type} must be integers, got ${typeof value === "number" ? value : typeof value} at ${at}`,
  );
}
