/**
 * Bit patterns of the floats that JavaScript has no array for: float16, bfloat16, the float8 and float6 families, float4e2m1.
 * Decoding is exact; encoding rounds once from the double, to nearest, ties to even. Saturation is the caller's choice, as in Cast.
 */
import type { ElementType } from "./element-type.js";

/** The float types that are kept as bit patterns. */
export type SmallFloat =
  | "float16"
  | "bfloat16"
  | "float8e4m3fn"
  | "float8e4m3fnuz"
  | "float8e5m2"
  | "float8e5m2fnuz"
  | "float8e8m0"
  | "float6e2m3"
  | "float6e3m2"
  | "float4e2m1";

/** "ieee": the top exponent is Inf and NaN. "fn": only the all-ones pattern is NaN. "fnuz": −0's pattern is NaN. "finite": neither. */
type Edge = "ieee" | "fn" | "fnuz" | "finite";

/** How a small float lays out its bits and what it does at its edges. */
interface Format {
  readonly exponentBits: number;
  readonly mantissaBits: number;
  readonly bias: number;
  readonly edge: Edge;
  readonly signBit: number;
  /** The largest finite pattern. */
  readonly largest: number;
  /** What stands for NaN; −0 where there is none, as ONNX's cast has it. */
  readonly nan: number;
  /** What a value past the largest becomes, its sign to be joined to it. */
  readonly overflow: number;
}

function format(exponentBits: number, mantissaBits: number, bias: number, edge: Edge): Format {
  const signBit = 1 << (exponentBits + mantissaBits);
  const infinity = signBit - (1 << mantissaBits);
  const shared = { exponentBits, mantissaBits, bias, edge, signBit };
  switch (edge) {
    case "ieee":
      return { ...shared, largest: infinity - 1, nan: infinity | (1 << (mantissaBits - 1)), overflow: infinity };
    case "fn":
      return { ...shared, largest: signBit - 2, nan: signBit - 1, overflow: signBit - 1 };
    case "fnuz":
      return { ...shared, largest: signBit - 1, nan: signBit, overflow: signBit };
    case "finite":
      return { ...shared, largest: signBit - 1, nan: signBit, overflow: signBit - 1 };
    default:
      return edge satisfies never;
  }
}

const formats: Record<Exclude<SmallFloat, "float8e8m0">, Format> = {
  float16: format(5, 10, 15, "ieee"),
  bfloat16: format(8, 7, 127, "ieee"),
  float8e4m3fn: format(4, 3, 7, "fn"),
  float8e4m3fnuz: format(4, 3, 8, "fnuz"),
  float8e5m2: format(5, 2, 15, "ieee"),
  float8e5m2fnuz: format(5, 2, 16, "fnuz"),
  float6e2m3: format(2, 3, 1, "finite"),
  float6e3m2: format(3, 2, 3, "finite"),
  float4e2m1: format(2, 1, 1, "finite"),
};

/** True for the float types that are kept as bit patterns. */
export const isSmallFloat = (type: ElementType): type is SmallFloat =>
  type === "float8e8m0" || Object.hasOwn(formats, type);

function decodeBits({ exponentBits, mantissaBits, bias, edge, signBit, nan }: Format, bits: number): number {
  const sign = bits & signBit ? -1 : 1;
  const exponent = (bits & (signBit - 1)) >> mantissaBits;
  const mantissa = bits & ((1 << mantissaBits) - 1);
  if (edge === "ieee" && exponent === (1 << exponentBits) - 1) return mantissa === 0 ? sign * Infinity : NaN;
  if (edge === "fn" && (bits & (signBit - 1)) === nan) return NaN;
  if (edge === "fnuz" && bits === nan) return NaN;
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
      const layout = formats[type];
      table = Float32Array.from({ length: layout.signBit * 2 }, (_, bits) => decodeBits(layout, bits));
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

const scratch = new Float64Array(1);
/** The double in `scratch`: its low word, then sign, exponent (bias 1023) and the upper 20 bits of the mantissa. */
const words = new Int32Array(scratch.buffer);

/** `value` / 2^shift to the nearest integer, ties to even. */
const shiftToEven = (value: number, shift: number): number =>
  (value + (1 << (shift - 1)) - 1 + ((value >> shift) & 1)) >> shift;

/** The pattern of |x| without regard to the format's largest, from the upper word of |x| with a bit for a low word that is not 0. */
function magnitudeBits(upper: number, mantissaBits: number, bias: number): number {
  const shift = 20 - mantissaBits;
  const exponent = (upper >> 20) - 1023 + bias;
  // Rounding up may carry into the exponent, which is right.
  if (exponent > 0) return shiftToEven(upper - ((1023 - bias) << 20), shift);
  const below = shift + 1 - exponent;
  return below > 21 ? 0 : shiftToEven((upper & 0xfffff) | 0x100000, below);
}

function encodeBits(layout: Format, x: number, saturate: boolean): number {
  scratch[0] = x;
  const upper = (words[1] & 0x7fffffff) | (words[0] === 0 ? 0 : 1);
  if (upper > 0x7ff00000) return layout.nan;
  const sign = words[1] < 0 ? layout.signBit : 0;
  const bits = magnitudeBits(upper, layout.mantissaBits, layout.bias);
  if (bits > layout.largest) return sign | (saturate ? layout.largest : layout.overflow);
  return bits === 0 && layout.edge === "fnuz" ? 0 : sign | bits;
}

function encodePowerOfTwo(x: number, saturate: boolean, rounding: "up" | "down" | "nearest"): number {
  scratch[0] = x;
  const upper = (words[1] & 0x7fffffff) | (words[0] === 0 ? 0 : 1);
  if (upper > 0x7ff00000) return 255;
  const fraction = upper & 0xfffff;
  const up = rounding === "up" ? fraction > 0 : rounding === "nearest" ? fraction >= 0x80000 : false;
  const exponent = (upper >> 20) - 1023 + 127 + (up ? 1 : 0);
  if (exponent > 254) return saturate ? 254 : 255;
  return Math.max(exponent, 0);
}

const single = new Float32Array(1);
const singleBits = new Int32Array(single.buffer);

/** The bits of x in `single`, moved off a tie that only the rounding to float32 has made: the rest of x decides it. */
function offTie(bits: number, dropped: number, x: number): number {
  const isTie = (bits & ((1 << dropped) - 1)) === 1 << (dropped - 1);
  return isTie ? bits + Math.sign(Math.abs(x) - Math.abs(single[0])) : bits;
}

/** Nearest float16 pattern of a number. */
export function encodeFloat16(x: number): number {
  single[0] = x;
  const sign = (singleBits[0] >>> 16) & 0x8000;
  const size = Math.abs(x);
  // Subnormals in units of the least one; 2^52 leaves no room for a fraction.
  if (size < 2 ** -14) return sign | (size * 2 ** 24 + 2 ** 52 - 2 ** 52);
  if (!(size < 65520)) return x !== x ? 0x7e00 : sign | 0x7c00;
  const bits = offTie(singleBits[0] & 0x7fffffff, 13, x);
  return sign | ((bits - (112 << 23) + 0xfff + ((bits >>> 13) & 1)) >>> 13);
}

/** Nearest bfloat16 pattern of a number. */
export function encodeBfloat16(x: number): number {
  if (x !== x) return 0x7fc0;
  single[0] = x;
  const bits = offTie(singleBits[0], 16, x);
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** How `encodeFloat` treats values outside the range, and how float8e8m0 rounds. */
export interface Encoding {
  readonly saturate?: boolean;
  readonly roundMode?: "up" | "down" | "nearest";
}

/** The function from numbers to bit patterns of `type` that `encodeFloat` is, looked up once for many numbers. */
export function floatEncoder(type: SmallFloat, encoding: Encoding = {}): (x: number) => number {
  const { roundMode = "up" } = encoding;
  if (type === "float8e8m0") return (x) => encodePowerOfTwo(x, encoding.saturate ?? true, roundMode);
  const saturate = encoding.saturate ?? false;
  if (type === "float16" && !saturate) return encodeFloat16;
  if (type === "bfloat16" && !saturate) return encodeBfloat16;
  const layout = formats[type];
  return (x) => encodeBits(layout, x, saturate);
}

/** The bit pattern of `type` nearest to `x`; values outside its range become infinity, NaN or, with `saturate`, the largest finite one. */
export function encodeFloat(type: SmallFloat, x: number, encoding: Encoding = {}): number {
  if (type === "float8e8m0") return encodePowerOfTwo(x, encoding.saturate ?? true, encoding.roundMode ?? "up");
  const saturate = encoding.saturate ?? false;
  if (type === "float16" && !saturate) return encodeFloat16(x);
  if (type === "bfloat16" && !saturate) return encodeBfloat16(x);
  return encodeBits(formats[type], x, saturate);
}
