/** float16 and bfloat16 in plain JavaScript, for tests: exact both ways, to the nearest even. */
import { elementCode } from "../../src/wasm-kernels/jobs.js";

export type FloatType = "float32" | "float16" | "bfloat16";
export const floatTypes: readonly FloatType[] = ["float32", "float16", "bfloat16"];

const word = new DataView(new ArrayBuffer(4));

export function bitsOf(value: number): number {
  word.setFloat32(0, value);
  return word.getUint32(0);
}

export function fromBits(bits: number): number {
  word.setUint32(0, bits >>> 0);
  return word.getFloat32(0);
}

export function decodeFloat16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

export function encodeFloat16(value: number): number {
  const sign = Object.is(value, -0) || value < 0 ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  // Adding a power of two leaves the significand's last places where float64 rounds them: to the nearest even.
  const exponent = Math.max(-14, (bitsOf(size) >>> 23) - 127);
  const step = 2 ** (exponent - 10);
  const steps = size / step + 2 ** 52 - 2 ** 52;
  return sign | ((exponent + 14) * 1024 + steps);
}

export function encodeBfloat16(value: number): number {
  const bits = bitsOf(value);
  if (Number.isNaN(value)) return (bits >>> 16) | 0x40;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** The numbers as an array of the type, and what they are after rounding to it. */
export function encode(
  type: FloatType,
  values: Float32Array,
): {
  readonly code: number;
  readonly width: number;
  readonly data: Float32Array | Uint16Array;
  readonly rounded: Float32Array;
} {
  if (type === "float32") return { code: elementCode.float32, width: 4, data: values, rounded: values };
  const data = Uint16Array.from(values, type === "float16" ? encodeFloat16 : encodeBfloat16);
  return { code: elementCode[type], width: 2, data, rounded: Float32Array.from(data, decoder(type)) };
}

/** Reads elements of the type from bytes. */
export function decode(type: FloatType, bytes: ArrayBuffer): Float32Array {
  return type === "float32" ? new Float32Array(bytes) : Float32Array.from(new Uint16Array(bytes), decoder(type));
}

const decoder =
  (type: FloatType): ((bits: number) => number) =>
  (bits) =>
    type === "float16" ? decodeFloat16(bits) : fromBits(bits << 16);

/** How far a result of the type may be off, relative to the largest. */
export const toleranceOf = (type: FloatType): number => (type === "float32" ? 4e-6 : type === "float16" ? 1e-3 : 8e-3);
