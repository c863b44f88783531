/**
 * The caches of GroupQueryAttention: where the rows of a step go, and how rows are read back. Rows that no sample's length reaches
 * keep what the past holds there; rows that the present has beyond the past are zero.
 */
import { type Numbers, readNumbers } from "../../tensor/access.js";
import { cloneView, copyView } from "../../tensor/copy.js";
import { roundToEven } from "../../tensor/float.js";
import { View } from "../../tensor/view.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import type { Granularity } from "./call.js";

/** How values become rows of a cache and come back. */
export interface RowFormat {
  /** Fresh rows as the cache stores them: [batch, kv heads, fresh, row]. */
  encode(fresh: View): View;
  /** Stored rows of one head, [rows, row], as numbers [rows, size]. */
  decode(rows: View, head: number): Numbers;
}

/** Rows are stored as they are, rounded to the cache's type. */
export const plainRows: RowFormat = { encode: (fresh) => fresh, decode: (rows) => readNumbers(rows) };

/** Rows of signed integers of 8 bits, or of 4 bits with 8 added and two a byte, times a scale for all or one a channel. */
export function quantizedRows(bits: number, granularity: Granularity, scale: View, size: number): RowFormat {
  const scales = readNumbers(scale);
  const scaleOf = (head: number, channel: number): number =>
    granularity === "PER_TENSOR" ? scales[0] : scales[head * size + channel];
  const [least, greatest] = bits === 8 ? [-128, 127] : [-8, 7];
  // In float32 as the format is defined: a quotient in the middle between two integers must not depend on extra digits.
  const quantize = (value: number, factor: number): number => {
    const inverse = factor === 0 ? 1 : Math.fround(1 / factor);
    return Math.min(greatest, Math.max(least, roundToEven(Math.fround(value * inverse))));
  };
  return {
    encode(fresh) {
      const [batch, heads, length] = fresh.shape;
      const values = readNumbers(fresh);
      const width = bits === 8 ? size : Math.ceil(size / 2);
      const stored = View.allocate(bits === 8 ? "int8" : "uint8", [batch, heads, length, width]);
      const bytes = stored.data as Int8Array | Uint8Array;
      for (let row = 0; row < batch * heads * length; row++) {
        const head = Math.floor(row / length) % heads;
        const at = (channel: number): number =>
          channel < size ? quantize(values[row * size + channel], scaleOf(head, channel)) : 0;
        for (let i = 0; i < width; i++) {
          bytes[row * width + i] = bits === 8 ? at(i) : (at(2 * i) + 8) | ((at(2 * i + 1) + 8) << 4);
        }
      }
      return stored;
    },
    decode(rows, head) {
      const [count, width] = rows.shape;
      const stored = readNumbers(rows);
      const values = float64Scratch(count * size);
      for (let row = 0; row < count; row++) {
        for (let i = 0; i < size; i++) {
          const byte = stored[row * width + (bits === 8 ? i : i >> 1)];
          const integer = bits === 8 ? byte : ((byte >> (4 * (i & 1))) & 15) - 8;
          values[row * size + i] = integer * scaleOf(head, i);
        }
      }
      return values;
    },
  };
}

/** Brings the past to the front of the present, where it does not stand there already, and zeroes the rows beyond it. */
function takeOver(past: View | undefined, present: View): void {
  const length = past?.shape[2] ?? 0;
  if (past !== undefined) {
    const target = present.slice(2, 0, length);
    if (past.data !== target.data) copyView(past, target);
    else if (past.offset !== target.offset || past.strides.some((stride, axis) => stride !== target.strides[axis]))
      copyView(cloneView(past), target);
  }
  const beyond = present.slice(2, length, present.shape[2]);
  if (beyond.size > 0) copyView(View.allocate(present.type, beyond.shape), beyond);
}

const sampleRows = (view: View, sample: number, from: number, to: number): View =>
  view.slice(0, sample, sample + 1).slice(2, from, to);

/** Writes the fresh rows of each sample behind its own past: `starts` holds the row where they begin. */
export function appendRows(past: View | undefined, fresh: View, present: View, starts: readonly number[]): void {
  takeOver(past, present);
  const length = fresh.shape[2];
  starts.forEach((start, sample) =>
    copyView(sampleRows(fresh, sample, 0, length), sampleRows(present, sample, start, start + length)),
  );
}

/** Rows that a window cache of `capacity` rows holds after `tokens`; when it overflows, it drops all that lie before the window. */
export function windowRows(tokens: number, capacity: number, window: number): number {
  if (tokens <= capacity) return tokens;
  const gap = capacity - window + 1;
  return tokens - gap * Math.ceil((tokens - capacity) / gap);
}

/**
 * One step of a window cache: `held` rows of each sample stand at the front, and the first of the new ones are its own (`fresh`). Returns all rows
 * of the step, past and new, for attention, and keeps the last `kept` of the sample's own in the present.
 */
export function slideRows(
  past: View,
  rows: View,
  present: View,
  { held, fresh, kept }: { readonly [name in "held" | "fresh" | "kept"]: readonly number[] },
): View {
  const length = rows.shape[2];
  const [batch, heads, , width] = past.shape;
  const all = View.allocate(present.type, [batch, heads, Math.max(0, ...held) + length, width]);
  held.forEach((count, sample) => {
    copyView(sampleRows(past, sample, 0, count), sampleRows(all, sample, 0, count));
    copyView(sampleRows(rows, sample, 0, length), sampleRows(all, sample, count, count + length));
  });
  takeOver(past, present);
  kept.forEach((count, sample) => {
    const end = held[sample] + fresh[sample];
    // Without a drop the past stands where it stood: only the fresh rows are written.
    const from = count === end ? held[sample] : 0;
    copyView(sampleRows(all, sample, end - count + from, end), sampleRows(present, sample, from, count));
  });
  return all;
}
