/**
 * Bit patterns of the floats that JavaScript has no array for: float16, bfloat16, the float8 family, float4e2m1.
 * Decoding is exact; encoding rounds to nearest, ties to even. Saturation is the caller's choice, as in Cast.
 */
import type { ElementType } from "./element-type.js";

const scratchFloat = new Float32Array(1);
const scratchBits = new Uint32Array(scratchFloat.buffer);

/** The float types that are kept as bit patterns. */
export type SmallFloat =
  | "float16"
  | "bfloat16"
  | "float8e4m3fn"
  | "float8e4m3fnuz"
  | "float8e5m2"
  | "float8e5m2fnuz"
  | "float8e8m0"
  | "float4e2m1";

/** How a small float lays out its bits and what it does at its edges. */
interface Format {
  readonly exponentBits: number;
  readonly mantissaBits: number;
  readonly bias: number;
  /** "ieee": the top exponent is Inf and NaN. "fn": only the all-ones pattern is NaN. "fnuz": 0x80 is NaN, no −0. "finite": neither. */
  readonly edge: "ieee" | "fn" | "fnuz" | "finite";
}

const formats: Record<Exclude<SmallFloat, "float8e8m0">, Format> = {
  float16: { exponentBits: 5, mantissaBits: 10, bias: 15, edge: "ieee" },
  bfloat16: { exponentBits: 8, mantissaBits: 7, bias: 127, edge: "ieee" },
  float8e4m3fn: { exponentBits: 4, mantissaBits: 3, bias: 7, edge: "fn" },
  float8e4m3fnuz: { exponentBits: 4, mantissaBits: 3, bias: 8, edge: "fnuz" },
  float8e5m2: { exponentBits: 5, mantissaBits: 2, bias: 15, edge: "ieee" },
  float8e5m2fnuz: { exponentBits: 5, mantissaBits: 2, bias: 16, edge: "fnuz" },
  float4e2m1: { exponentBits: 2, mantissaBits: 1, bias: 1, edge: "finite" },
};

/** True for the float types that are kept as bit patterns. */
export const isSmallFloat = (type: ElementType): type is SmallFloat => type === "float8e8m0" || Object.hasOwn(formats, type);

function decodeBits(format: Format, bits: number): number {
  const { exponentBits, mantissaBits, bias, edge } = format;
  const width = 1 + exponentBits + mantissaBits;
  const sign = bits >> (width - 1) ? -1 : 1;
  const exponent = (bits >> mantissaBits) & ((1 << exponentBits) - 1);
  const mantissa = bits & ((1 << mantissaBits) - 1);
  const top = (1 << exponentBits) - 1;
  if (edge === "ieee" && exponent === top) return mantissa === 0 ? sign * Infinity : NaN;
  if (edge === "fn" && exponent === top && mantissa === (1 << mantissaBits) - 1) return NaN;
  if (edge === "fnuz" && bits === 1 << (width - 1)) return NaN;
  if (exponent === 0) return sign * mantissa * 2 ** (1 - bias - mantissaBits);
  return sign * (1 + mantissa / (1 << mantissaBits)) * 2 ** (exponent - bias);
}

const decodeTables = new Map<SmallFloat, Float32Array>();

/** Decoded value of every bit pattern of `type`, indexed by the pattern. */
export function decodeTable(type: SmallFloat): Float32Array {
  let table = decodeTables.get(type);
  if (table === undefined) {
    if (type === "float8e8m0") {
      table = Float32Array.from({ length: 256 }, (_, bits) => (bits === 255 ? NaN : 2 ** (bits - 127)));
    } else {
      const format = formats[type];
      const size = 1 << (1 + format.exponentBits + format.mantissaBits);
      table = Float32Array.from({ length: size }, (_, bits) => decodeBits(format, bits));
    }
    decodeTables.set(type, table);
  }
  return table;
}

/** Rounds to an integer, ties to even. */
export function roundToEven(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  if (rest < 0.5) return floor;
  if (rest > 0.5) return floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}

function encodeBits(format: Format, x: number, saturate: boolean): number {
  const { exponentBits, mantissaBits, bias, edge } = format;
  const signBit = 1 << (exponentBits + mantissaBits);
  const magnitudes = signBit - 1;
  // The largest finite pattern, and what stands for infinity and for NaN.
  const infinity = edge === "ieee" ? ((1 << exponentBits) - 1) << mantissaBits : undefined;
  const largest = infinity !== undefined ? infinity - 1 : edge === "fn" ? magnitudes - 1 : magnitudes;
  const nan = edge === "ieee" ? infinity! | (1 << (mantissaBits - 1)) : edge === "fn" ? magnitudes : signBit;
  const sign = x < 0 || Object.is(x, -0) ? signBit : 0;
  if (Number.isNaN(x)) return edge === "finite" ? largest : nan;
  const a = Math.abs(x);
  const overflow = saturate || edge === "finite" ? sign | largest : edge === "ieee" ? sign | infinity! : edge === "fn" ? sign | nan : nan;
  if (a === Infinity) return overflow;
  let exponent = a === 0 ? 1 - bias : Math.max(Math.floor(Math.log2(a)), 1 - bias);
  // log2 may be off by one at powers of two.
  if (a >= 2 ** (exponent + 1)) exponent++;
  else if (exponent > 1 - bias && a < 2 ** exponent) exponent--;
  const steps = roundToEven(a * 2 ** (mantissaBits - exponent)); // in units of the last place
  const bits = (exponent + bias - 1) * (1 << mantissaBits) + steps;
  if (bits > largest) return overflow;
  if (edge === "fnuz" && bits === 0) return 0;
  return sign | bits;
}

function encodePowerOfTwo(x: number, saturate: boolean, rounding: "up" | "down" | "nearest"): number {
  if (Number.isNaN(x)) return 255;
  const a = Math.abs(x);
  if (a === Infinity) return saturate ? 254 : 255;
  if (a === 0) return 0;
  let exponent = Math.floor(Math.log2(a));
  if (a >= 2 ** (exponent + 1)) exponent++;
  else if (a < 2 ** exponent) exponent--;
  const fraction = a / 2 ** exponent; // [1, 2)
  if (rounding === "up" ? fraction > 1 : rounding === "nearest" ? fraction >= 1.5 : false) exponent++;
  if (exponent > 127) return saturate ? 254 : 255;
  return Math.max(exponent + 127, 0);
}

/** Nearest float16 pattern of a number. Fast: most of what is encoded is float16. */
export function encodeFloat16(x: number): number {
  return encodeBits(formats.float16, x, false);
}

/** Nearest bfloat16 pattern of a number that is already a float32. */
export function encodeBfloat16(x: number): number {
  scratchFloat[0] = x;
  const bits = scratchBits[0];
  if (Number.isNaN(x)) return 0x7fc0 | ((bits >>> 16) & 0x8000);
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** How `encodeFloat` treats values outside the range, and how float8e8m0 rounds. */
export interface Encoding {
  readonly saturate?: boolean;
  readonly roundMode?: "up" | "down" | "nearest";
}

/** The bit pattern of `type` nearest to `x`; values outside its range become infinity, NaN or, with `saturate`, the largest finite one. */
export function encodeFloat(type: SmallFloat, x: number, encoding: Encoding = {}): number {
  if (type === "bfloat16") return encodeBfloat16(x);
  if (type === "float8e8m0") return encodePowerOfTwo(x, encoding.saturate ?? true, encoding.roundMode ?? "up");
  return encodeBits(formats[type], x, encoding.saturate ?? false);
}
