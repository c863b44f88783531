/** Helpers of these tests: elements read and written bit by bit, by definitions that share nothing with the code under test. */
import fc from "fast-check";
import { expect } from "vitest";
import { type ErrorCode, InsituError } from "../../src/base/error.js";
import { allocateStorage, type ElementType, type Storage, traitsOf } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";
import { soak } from "../support/soak.js";

/** The seed of every random test here; `INSITU_SEED` gives another. */
export const seed: number = Number(process.env["INSITU_SEED"] ?? 20_261_115);

/** fast-check's settings: the seed, and ten times as many runs when soaking. */
export const sampled = (runs: number): { seed: number; numRuns: number } => ({
  seed,
  numRuns: soak ? runs * 10 : runs,
});

/** Expects an InsituError with this code and message. */
export function expectError(run: () => unknown, code: ErrorCode, message: RegExp): void {
  let error: unknown;
  try {
    run();
  } catch (caught) {
    error = caught;
  }
  expect(error).toBeInstanceOf(InsituError);
  expect((error as InsituError).message).toMatch(message);
  expect((error as InsituError).code).toBe(code);
}

/** The elements of a storage as strings: text itself, or the element's bits from the highest to the lowest. */
export function rawElements(type: ElementType, data: Storage): string[] {
  if (Array.isArray(data)) return [...data];
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const { bits } = traitsOf(type);
  return Array.from({ length: Math.floor((bytes.length * 8) / bits) }, (_, index) => {
    let text = "";
    for (let bit = index * bits; bit < (index + 1) * bits; bit++) text = ((bytes[bit >> 3] >> (bit & 7)) & 1) + text;
    return text;
  });
}

/** Writes one element as `rawElements` gives it. */
export function setRawElement(type: ElementType, data: Storage, index: number, value: string): void {
  if (Array.isArray(data)) {
    data[index] = value;
    return;
  }
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const { bits } = traitsOf(type);
  for (let i = 0; i < bits; i++) {
    const bit = index * bits + i;
    bytes[bit >> 3] = (bytes[bit >> 3] & ~(1 << (bit & 7))) | (Number(value[bits - 1 - i]) << (bit & 7));
  }
}

/** Storage indices of a view's elements in row-major order, by nested loops. */
export function indicesOf({ shape, strides, offset }: Pick<View, "shape" | "strides" | "offset">): number[] {
  let indices = [offset];
  shape.forEach((dim, axis) => {
    indices = indices.flatMap((index) => Array.from({ length: dim }, (_, i) => index + i * strides[axis]));
  });
  return indices;
}

/** The elements of a view in row-major order, as `rawElements` gives them. */
export function rawOf(view: View): string[] {
  const all = rawElements(view.type, view.data);
  return indicesOf(view).map((index) => all[index]);
}

/** Storage for `count` elements, each bit by chance. */
export function randomStorage(type: ElementType, count: number, from: number): Storage {
  let state = from >>> 0;
  const next = (): number => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) >>> 24;
  const storage = allocateStorage(type, count);
  if (Array.isArray(storage)) return storage.map(() => `s${next()}`);
  const bytes = new Uint8Array(storage.buffer);
  for (let i = 0; i < bytes.length; i++) bytes[i] = next();
  return storage;
}

/** A place in some storage for a given shape: gaps, another order of axes, steps backward, repeated elements. */
export interface Layout {
  readonly offset: number;
  readonly strides: readonly number[];
  /** Elements of storage it takes. */
  readonly extent: number;
}

const axisChoice = fc.record({
  step: fc.integer({ min: 1, max: 3 }),
  gap: fc.integer({ min: 0, max: 2 }),
  backward: fc.boolean(),
  repeated: fc.constantFrom(false, false, false, true),
});

/** Layouts for a shape; elements are repeated (stride 0) only where `repeats` allows. */
export function layouts(shape: readonly number[], repeats: boolean): fc.Arbitrary<Layout> {
  const rank = shape.length;
  return fc
    .record({
      order: fc.shuffledSubarray([...shape.keys()], { minLength: rank, maxLength: rank }),
      plain: fc.boolean(),
      axes: fc.array(axisChoice, { minLength: rank, maxLength: rank }),
      before: fc.integer({ min: 0, max: 5 }),
      after: fc.integer({ min: 0, max: 5 }),
    })
    .map(({ order, plain, axes, before, after }) => {
      const strides = new Array<number>(rank).fill(0);
      let extent = 1;
      let offset = before;
      for (const axis of plain ? [...shape.keys()].toReversed() : order) {
        const { step, gap, backward, repeated } = axes[axis];
        if (repeats && repeated && !plain) continue;
        const length = Math.max(shape[axis], 1);
        strides[axis] = plain ? extent : extent * step;
        extent = plain ? extent * length + gap * extent : strides[axis] * length + gap;
        if (backward && !plain) {
          offset += strides[axis] * (length - 1);
          strides[axis] = -strides[axis];
        }
      }
      return { offset, strides, extent: before + extent + after };
    });
}

/** Small shapes, scalars and empty ones included. */
export const shapes: fc.Arbitrary<number[]> = fc.array(fc.constantFrom(1, 2, 3, 5, 1, 4, 0, 7), {
  minLength: 0,
  maxLength: 4,
});
