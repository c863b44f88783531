// A reference implementation of paged writes, element by element, written from the formulas of the operator's contract. Shares no code
// with the operator: works on bit patterns in plain arrays and has its own floats.
import type { ElementType } from "../../src/tensor/element-type.js";

/** Bytes of one element. */
export const widths: Partial<Record<ElementType, 1 | 2 | 4>> = {
  float16: 2,
  bfloat16: 2,
  float32: 4,
  int8: 1,
  uint8: 1,
  int16: 2,
  uint16: 2,
  int32: 4,
  uint32: 4,
  float8e4m3fn: 1,
  float8e5m2: 1,
};

/** The element types of the operator. */
export const types = Object.keys(widths) as ElementType[];

/** One side of a call: the vectors of keys, or those of values, and their cache. All contents are bit patterns. */
export interface SlowSide {
  readonly type: ElementType;
  readonly rows: readonly number[];
  readonly rowShape: readonly number[];
  readonly cache: readonly number[];
  readonly cacheShape: readonly number[];
  readonly stride: number;
  readonly offset: number;
}

/** What both sides have in common. */
export interface SlowCall {
  readonly mode: "PA_NZ" | "None" | "Nct" | "NHSD" | "mean" | "last" | "Alibi" | "Rope" | "Omni";
  readonly slots: readonly number[];
  readonly compressLens?: readonly number[];
  readonly compressSeqOffset?: readonly number[];
  readonly seqLens?: readonly number[];
}

/** The position of an element in row-major order. */
export function at(shape: readonly number[], ...index: number[]): number {
  let position = 0;
  for (let axis = 0; axis < shape.length; axis++) {
    if (!(index[axis] >= 0 && index[axis] < shape[axis])) throw new Error(`oracle: [${index}] is outside [${shape}]`);
    position = position * shape[axis] + index[axis];
  }
  return position;
}

const div = (a: number, b: number): number => Math.floor(a / b);

/** The cache after the write. */
export function slowScatter(call: SlowCall, side: SlowSide): number[] {
  switch (call.mode) {
    case "PA_NZ":
    case "None":
    case "Nct":
    case "NHSD":
      return slowTokens(call, side);
    default:
      return slowRuns(call, side);
  }
}

function slowTokens({ mode, slots }: SlowCall, side: SlowSide): number[] {
  const { rows, rowShape, cacheShape } = side;
  const cache = [...side.cache];
  slots.forEach((s, t) => {
    if (s < 0) return;
    if (mode === "None") {
      const [, BS, H, D] = cacheShape;
      for (let h = 0; h < H; h++)
        for (let d = 0; d < D; d++) cache[at(cacheShape, div(s, BS), s % BS, h, d)] = rows[at(rowShape, t, h, d)];
    } else if (mode === "Nct") {
      const [, BS, H, D] = cacheShape;
      for (let h = 0; h < H; h++)
        for (let d = 0; d < D; d++)
          cache[at(cacheShape, div(s, BS), s % BS, h, d)] = rows[side.offset + t * side.stride + h * D + d];
    } else if (mode === "NHSD") {
      const [, H, BS, D] = cacheShape;
      for (let h = 0; h < H; h++)
        for (let d = 0; d < D; d++) cache[at(cacheShape, div(s, BS), h, s % BS, d)] = rows[at(rowShape, t, h, d)];
    } else {
      const [, H, D] = rowShape;
      const c = 32 / widths[side.type]!;
      const BS = cacheShape.at(-2)!;
      const flat = [cacheShape[0], (H * D) / c, BS, c];
      for (let h = 0; h < H; h++)
        for (let d = 0; d < D; d++) {
          const e = h * D + d;
          cache[at(flat, div(s, BS), div(e, c), s % BS, e % c)] = rows[at(rowShape, t, h, d)];
        }
    }
  });
  return cache;
}

function slowRuns({ mode, slots, compressLens, compressSeqOffset, seqLens }: SlowCall, side: SlowSide): number[] {
  const { type, rows, rowShape, cacheShape } = side;
  const cache = [...side.cache];
  const padded = rowShape.length === 4;
  const H = rowShape.at(-2)!;
  const D = rowShape.at(-1)!;
  const BS = cacheShape[1];
  seqLens!.forEach((L, b) => {
    const start = seqLens!.slice(0, b).reduce((sum, length) => sum + length, 0);
    for (let h = 0; h < H; h++) {
      const i = b * H + h;
      const s = slots[i];
      if (s < 0) continue;
      const token = (j: number, d: number): number =>
        rows[padded ? at(rowShape, b, j, h, d) : at(rowShape, start + j, h, d)];
      // The plan: for each position p, a token, or a window to average.
      const plan: (number | readonly [number, number])[] = [];
      const tokens = (from: number, to: number): void => {
        for (let j = from; j < to; j++) plan.push(j);
      };
      const w = compressLens![i];
      const a = compressSeqOffset?.[i];
      if (mode === "Alibi" || mode === "last") tokens(L - w, L);
      else if (w === 0 || a! < 0) tokens(0, L);
      else {
        tokens(0, a!);
        if (mode !== "Omni") plan.push([a!, w]);
        tokens(a! + w, L);
      }
      plan.forEach((entry, p) => {
        for (let d = 0; d < D; d++) {
          const bits =
            typeof entry === "number"
              ? token(entry, d)
              : slowMean(
                  type,
                  Array.from({ length: entry[1] }, (_, k) => token(entry[0] + k, d)),
                );
          cache[at(cacheShape, div(s + p, BS), (s + p) % BS, 0, d)] = bits;
        }
      });
    }
  });
  return cache;
}

/** Mantissa and exponent bits, the exponent's bias, and whether the top exponent is kept for infinities and NaN. */
const floats: Partial<Record<ElementType, readonly [mantissa: number, exponent: number, bias: number, ieee: boolean]>> =
  {
    float16: [10, 5, 15, true],
    bfloat16: [7, 8, 127, true],
    float32: [23, 8, 127, true],
    float8e5m2: [2, 5, 15, true],
    float8e4m3fn: [3, 4, 7, false],
  };

/** True for the float types. */
export const isFloat = (type: ElementType): boolean => type in floats;

/** The number behind a bit pattern. */
export function decode(type: ElementType, bits: number): number {
  const format = floats[type];
  const width = 8 * widths[type]!;
  if (format === undefined) return type.startsWith("u") || bits < 2 ** (width - 1) ? bits : bits - 2 ** width;
  const [mantissaBits, exponentBits, bias, ieee] = format;
  const sign = bits >= 2 ** (width - 1) ? -1 : 1;
  const magnitude = bits % 2 ** (width - 1);
  const exponent = div(magnitude, 2 ** mantissaBits);
  const mantissa = magnitude % 2 ** mantissaBits;
  if (ieee && exponent === 2 ** exponentBits - 1) return mantissa === 0 ? sign * Infinity : NaN;
  if (!ieee && magnitude === 2 ** (width - 1) - 1) return NaN;
  if (exponent === 0) return sign * mantissa * 2 ** (1 - bias - mantissaBits);
  return sign * (1 + mantissa / 2 ** mantissaBits) * 2 ** (exponent - bias);
}

/** The pattern nearest to a number, the even one of two: searched among the patterns, whose order is that of their numbers. */
function encode(type: ElementType, value: number): number {
  const format = floats[type]!;
  const width = 8 * widths[type]!;
  const signBit = value < 0 || Object.is(value, -0) ? 2 ** (width - 1) : 0;
  const beyond = format[3] ? (2 ** format[1] - 1) * 2 ** format[0] : 2 ** (width - 1) - 1; // infinity, or NaN
  if (Number.isNaN(value)) return format[3] ? beyond + 2 ** (format[0] - 1) : beyond;
  const magnitude = Math.abs(value);
  let [low, high] = [0, beyond];
  const numberOf = (pattern: number): number =>
    pattern === beyond ? 2 * decode(type, beyond - 1) - decode(type, beyond - 2) : decode(type, pattern);
  while (high - low > 1) {
    const middle = div(low + high, 2);
    if (numberOf(middle) <= magnitude) low = middle;
    else high = middle;
  }
  const [down, up] = [magnitude - numberOf(low), numberOf(high) - magnitude];
  return signBit + (down < up || (down === up && low % 2 === 0) ? low : high);
}

/** The mean of one dimension over the tokens of a window. */
export function slowMean(type: ElementType, window: readonly number[]): number {
  const values = window.map((bits) => decode(type, bits));
  if (isFloat(type)) {
    let sum = 0;
    for (const value of values) sum = Math.fround(sum + value);
    const mean = Math.fround(sum / Math.fround(values.length));
    if (type !== "float32") return encode(type, mean);
    return new Uint32Array(Float32Array.of(mean).buffer)[0];
  }
  let sum = 0n;
  for (const value of values) sum += BigInt(value);
  const wrapped = type.startsWith("u") ? BigInt.asUintN(32, sum) : BigInt.asIntN(32, sum);
  return Number(BigInt.asUintN(8 * widths[type]!, wrapped / BigInt(values.length))); // bigint division goes towards zero
}
