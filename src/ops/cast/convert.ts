/**
 * The conversion behind Cast and CastLike, from every element type to every other. Floats round to nearest, ties to even;
 * floats to integers truncate toward zero and then keep the bits the type has (NaN and infinities, which ONNX leaves
 * undefined, give 0); integers to integers keep the bits the type has; anything but 0 is true.
 */
import { type BigInts, isWide, numberReader, numberWriter } from "../../tensor/access.js";
import { copyView } from "../../tensor/copy.js";
import { type ElementType, traitsOf } from "../../tensor/element-type.js";
import { forEachIndex, type View } from "../../tensor/view.js";
import { formatFloat, parseBool, parseInteger, parseNumber } from "./text.js";

/** How a conversion treats values that the target type cannot hold. */
interface Saturation {
  /** For the float8 types: the largest value instead of infinity or NaN. */
  readonly saturate: boolean;
  /** For float8e8m0. */
  readonly roundMode: "up" | "down" | "nearest";
}

/** A conversion that may also meet strings. */
export interface Conversion extends Saturation {
  /** Refuses a string that spells no number. */
  refuse(message: string): never;
}

/** Writes one converted element to a storage index. */
type Writer<T> = (index: number, value: T) => void;

/** The float nearest to a 64-bit integer, but never on a tie of a narrower type that the integer is not on itself. */
function toFloat(value: bigint, type: ElementType): number {
  const size = value < 0n ? -value : value;
  if (type === "float64" || size < 2n ** 53n) return Number(value);
  // Rounding to odd keeps a later rounding to fewer bits right.
  const odd = ((size >> 11n) | (size & 0x7ffn ? 1n : 0n)) << 11n;
  return Number(value < 0n ? -odd : odd);
}

/** Writes numbers to a float view, with the edges of the narrow types that plain rounding does not know. */
export function floatWriter(to: View, { saturate, roundMode }: Saturation): Writer<number> {
  if (traitsOf(to.type).bits > 8) return numberWriter(to);
  const write = numberWriter(to, { saturate, roundMode });
  // Without saturation, 0 and all below the least power of two are out of range.
  if (to.type === "float8e8m0" && !saturate) return (index, x) => write(index, Math.abs(x) < 2 ** -127 ? NaN : x);
  return write;
}

function fromNumber(to: View, conversion: Conversion): Writer<number> {
  if (isWide(to.type)) {
    const target = to.data as BigInts;
    return (index, x) => (target[index] = Number.isFinite(x) ? BigInt(Math.trunc(x)) : 0n);
  }
  const { kind } = traitsOf(to.type);
  if (kind === "float") return floatWriter(to, conversion);
  const write = numberWriter(to);
  // NaN is not 0, so it is true.
  return kind === "bool" ? (index, x) => write(index, x === 0 ? 0 : 1) : write;
}

function fromBigInt(to: View, conversion: Conversion): Writer<bigint> {
  if (isWide(to.type)) {
    const target = to.data as BigInts;
    return (index, x) => (target[index] = x);
  }
  const { kind } = traitsOf(to.type);
  if (kind === "float") {
    const write = floatWriter(to, conversion);
    return (index, x) => write(index, toFloat(x, to.type));
  }
  const write = numberWriter(to);
  return kind === "bool"
    ? (index, x) => write(index, x === 0n ? 0 : 1)
    : (index, x) => write(index, Number(BigInt.asIntN(32, x)));
}

function fromString(to: View, conversion: Conversion): Writer<string> {
  const reading = <T>(parse: (text: string) => T | undefined, what: string, write: Writer<T>): Writer<string> => {
    const refuse = (text: string): never =>
      conversion.refuse(`a string must spell ${what} to become ${to.type}, got ${JSON.stringify(text.slice(0, 64))}`);
    return (index, text) => write(index, parse(text) ?? refuse(text));
  };
  switch (traitsOf(to.type).kind) {
    case "bool":
      return reading(parseBool, "a truth value", (index, truth) => ((to.data as Uint8Array)[index] = truth ? 1 : 0));
    case "float":
      return reading(parseNumber, "a number", floatWriter(to, conversion));
    default:
      return reading(parseInteger, "an integer", fromBigInt(to, conversion));
  }
}

/** How numbers of a type are spelled. */
function spelling(type: ElementType): (x: number) => string {
  switch (traitsOf(type).kind) {
    case "bool":
      return (x) => (x === 0 ? "False" : "True");
    case "float":
      return (x) => formatFloat(x, type);
    default:
      return String;
  }
}

/** Writes every element of `from`, converted to the type of `to`, into `to`, which is contiguous. */
export function convertElements(from: View, to: View, conversion: Conversion): void {
  // Saturation does away with infinities, and float8e5m2 is the one type it applies to that has them.
  const unchanged = from.type !== "float8e5m2" || !conversion.saturate;
  if (from.type === to.type && unchanged) return copyView(from, to);
  const each = <T>(read: (index: number) => T, write: Writer<T>): void =>
    forEachIndex(from, (index, position) => write(to.offset + position, read(index)));
  const wide = isWide(from.type) ? (from.data as BigInts) : undefined;
  if (to.type === "string") {
    const texts = to.data as string[];
    const put: Writer<string> = (index, text) => (texts[index] = text);
    if (wide !== undefined) return each((index) => String(wide[index]), put);
    const [read, spell] = [numberReader(from), spelling(from.type)];
    return each((index) => spell(read(index)), put);
  }
  if (wide !== undefined) return each((index) => wide[index], fromBigInt(to, conversion));
  if (from.type === "string") {
    const texts = from.data as string[];
    return each((index) => texts[index], fromString(to, conversion));
  }
  each(numberReader(from), fromNumber(to, conversion));
}
