/**
 * Reading and writing the elements of views as JavaScript values: the slow, exact way that the operators' references use.
 * Numbers for floats, bools and integers up to 32 bits, bigints for 64-bit integers, strings for strings.
 */
import { InsituError, unreachable } from "../base/error.js";
import { type ElementType, isPacked, type Storage, traitsOf } from "./element-type.js";
import { decodeTable, type Encoding, floatEncoder, isSmallFloat, type SmallFloat } from "./float.js";
import { packedBits, setPackedBits } from "./packed.js";
import { forEachIndex, View } from "./view.js";

/** An array of numbers in row-major order. */
export type Numbers =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array;

/** An array of 64-bit integers in row-major order. */
export type BigInts = BigInt64Array | BigUint64Array;

/** True for int64 and uint64, whose elements are bigints. */
export const isWide = (type: ElementType): type is "int64" | "uint64" => type === "int64" || type === "uint64";

/** A fresh array for the elements of `view` as another type. Throws `out-of-memory` when it cannot be had. */
const freshFor = (view: View, type: ElementType): Storage => View.allocate(type, view.shape).data;

/** A function that reads the element at a storage index of `view` as a number. Not for 64-bit integers, complex or strings. */
export function numberReader(view: View): (index: number) => number {
  const { type, data } = view;
  const { bits, kind, signed } = traitsOf(type);
  if (isWide(type) || kind === "complex" || kind === "string") unreachable(`${view} has no plain numbers`);
  const source = data as Numbers;
  if (isPacked(type)) {
    const bytes = data as Uint8Array;
    if (isSmallFloat(type)) {
      const table = decodeTable(type);
      return (index) => table[packedBits(bytes, bits, index)];
    }
    const half = 1 << (bits - 1);
    return signed
      ? (index) => (packedBits(bytes, bits, index) ^ half) - half
      : (index) => packedBits(bytes, bits, index);
  }
  if (isSmallFloat(type)) {
    const table = decodeTable(type);
    return (index) => table[source[index]];
  }
  return (index) => source[index];
}

/**
 * The elements as numbers in row-major order. The array is the view's own storage where type and layout allow, so it must
 * not be written; otherwise a fresh one. 64-bit integers come as float64: use `readBigInts` where they must be exact.
 */
export function readNumbers(view: View): Numbers {
  const { type, data, size, offset } = view;
  const { kind, bits } = traitsOf(type);
  if (isWide(type)) return widened(readBigInts(view));
  if (kind === "complex" || kind === "string") unreachable(`${view} has no plain numbers`);
  const plain = bits >= 8 && !isSmallFloat(type);
  if (plain && view.contiguous) return (data as Numbers).subarray(offset, offset + size);
  if (isSmallFloat(type) && bits >= 8 && view.contiguous) return decoded(type, data as Uint16Array, offset, size);
  const target = freshFor(view, isSmallFloat(type) || type === "float32" ? "float32" : "float64") as Numbers;
  const read = numberReader(view);
  forEachIndex(view, (index, position) => (target[position] = read(index)));
  return target;
}

/** Patterns that lie one behind the other, by a table: logits of a whole vocabulary come this way. */
function decoded(type: SmallFloat, patterns: Uint16Array | Uint8Array, offset: number, size: number): Float32Array {
  const table = decodeTable(type);
  const target = new Float32Array(size);
  for (let at = 0; at < size; at++) target[at] = table[patterns[offset + at]];
  return target;
}

/** True where the lower half of a number comes first. */
export const isLittleEndian: boolean = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1;

/** The nearest numbers, by halves: making a number of each bigint takes ten times as long, and tables of pages are read for every token. */
function widened(source: BigInts): Float64Array {
  if (!isLittleEndian) return Float64Array.from(source as BigInt64Array, Number);
  const { buffer, byteOffset, length } = source;
  const lower = new Uint32Array(buffer, byteOffset, 2 * length);
  const upper = source instanceof BigInt64Array ? new Int32Array(buffer, byteOffset, 2 * length) : lower;
  const target = View.allocate("float64", [length]).data as Float64Array;
  // Both terms are exact, so that only the sum is rounded.
  for (let at = 0; at < length; at++) target[at] = upper[2 * at + 1] * 2 ** 32 + lower[2 * at];
  return target;
}

/** The elements of an int64 or uint64 view in row-major order; the view's own storage where the layout allows. */
export function readBigInts(view: View): BigInts {
  const source = view.data as BigInts;
  if (view.contiguous) return source.subarray(view.offset, view.offset + view.size);
  const target = freshFor(view, view.type) as BigInts;
  forEachIndex(view, (index, position) => (target[position] = source[index]));
  return target;
}

/** Integers up to this many are made numbers one by one: cheaper than the arrays that halves are read through. */
const fewIntegers = 8;

/** The elements of an integer view as exact numbers: for indices, axes, shapes. Throws for values past 2^53. */
export function readIntegers(view: View): number[] {
  if (!isWide(view.type)) return Array.from(readNumbers(view));
  const { size, offset } = view;
  const isFew = size <= fewIntegers && view.contiguous;
  const source = isFew ? (view.data as BigInts) : readBigInts(view);
  const first = isFew ? offset : 0;
  const numbers = isFew ? undefined : widened(source);
  const result = new Array<number>(size);
  for (let at = 0; at < size; at++) {
    const number = numbers === undefined ? Number(source[first + at]) : numbers[at];
    // The ends of the 64-bit range stand for "as far as there is" in Slice and its kin; they clamp all the same.
    if (!Number.isSafeInteger(number) && number !== 2 ** 63 && number !== -(2 ** 63)) {
      throw new InsituError(
        "invalid-argument",
        `the integer ${source[first + at]} is too large to be an index or a dimension`,
      );
    }
    result[at] = number;
  }
  return result;
}

/** The strings of a view in row-major order. */
export function readStrings(view: View): string[] {
  const source = view.data as string[];
  const target = freshFor(view, "string") as string[];
  forEachIndex(view, (index, position) => (target[position] = source[index]));
  return target;
}

/** A function that writes a number to a storage index of `view`, rounded or wrapped to its type. */
export function numberWriter(view: View, encoding?: Encoding): (index: number, value: number) => void {
  const { type, data } = view;
  const { bits, kind } = traitsOf(type);
  if (isWide(type)) {
    const target = data as BigInts;
    return (index, value) => (target[index] = BigInt(Math.trunc(value)));
  }
  if (kind === "complex" || kind === "string") unreachable(`${view} takes no plain numbers`);
  const encode = isSmallFloat(type) ? floatEncoder(type, encoding) : undefined;
  if (isPacked(type)) {
    const bytes = data as Uint8Array;
    return encode !== undefined
      ? (index, value) => setPackedBits(bytes, bits, index, encode(value))
      : (index, value) => setPackedBits(bytes, bits, index, value);
  }
  const target = data as Numbers;
  if (encode !== undefined) return (index, value) => (target[index] = encode(value));
  if (kind === "bool") return (index, value) => (target[index] = value ? 1 : 0);
  return (index, value) => (target[index] = value);
}

/** Writes numbers in row-major order, rounding floats and wrapping integers to the view's type. */
export function writeNumbers(view: View, values: ArrayLike<number>, encoding?: Encoding): void {
  const { kind, bits } = traitsOf(view.type);
  if (view.contiguous && bits >= 8 && bits <= 64 && !isWide(view.type) && !isSmallFloat(view.type) && kind !== "bool") {
    (view.data as Numbers).set(values, view.offset);
    return;
  }
  const write = numberWriter(view, encoding);
  forEachIndex(view, (index, position) => write(index, values[position]));
}

/** Writes 64-bit integers in row-major order, wrapping them to the view's type. */
export function writeBigInts(view: View, values: ArrayLike<bigint>): void {
  const target = view.data as BigInts;
  forEachIndex(view, (index, position) => (target[index] = values[position]));
}

/** Writes integers given as numbers into any integer view. */
export function writeIntegers(view: View, values: ArrayLike<number>): void {
  writeNumbers(view, values);
}

/** Writes strings in row-major order. */
export function writeStrings(view: View, values: ArrayLike<string>): void {
  const target = view.data as string[];
  forEachIndex(view, (index, position) => (target[index] = values[position]));
}
