// What the refusals of the paged write have in common: right calls to start from, and the test that a change is refused.
import { expect, test } from "vitest";
import { type ErrorCode, InsituError } from "../../src/base/error.js";
import {
  scatterPaKvCache,
  type ScatterPaKvCacheInputs,
  type ScatterPaKvCacheOptions,
} from "../../packages/functions/paged.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { bitsOf, indices, tensorOf } from "./bits.js";

export const int = (shape: readonly number[], values: readonly number[]): Tensor => indices("int32", shape, values);

export function ones(shape: readonly number[], type: ElementType = "float16"): Tensor {
  return tensorOf(type, shape, new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(1));
}

/** Caches start as sevens, so that a write of ones would show. */
export const cache = (shape: readonly number[], type: ElementType = "float16"): Tensor =>
  tensorOf(type, shape, new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(7));

type Base = readonly [ScatterPaKvCacheInputs, ScatterPaKvCacheOptions];

export const plain = (): Base => [
  {
    key: ones([3, 2, 4]),
    value: ones([3, 2, 5]),
    keyCache: cache([2, 4, 2, 4]),
    valueCache: cache([2, 4, 2, 5]),
    slotMapping: int([3], [0, 5, 7]),
  },
  { cacheMode: "Norm", scatterMode: "None" },
];

export const keyOnly = (): Base => {
  const [{ key, keyCache, slotMapping }, options] = plain();
  return [{ key, keyCache, slotMapping }, options];
};

export const fractal = (): Base => [
  {
    key: ones([3, 2, 16]),
    value: ones([3, 2, 32]),
    keyCache: cache([2, 2, 4, 16]),
    valueCache: cache([2, 4, 4, 16]),
    slotMapping: int([3], [0, 5, 7]),
  },
  { cacheMode: "PA_NZ", scatterMode: "None" },
];

export const strided = (): Base => [
  { ...plain()[0], key: ones([40]), value: ones([40]) },
  { scatterMode: "Nct", strides: [10, 12], offsets: [4, 6] },
];

export const heads = (): Base => {
  const [inputs] = plain();
  return [{ ...inputs, keyCache: cache([2, 2, 4, 4]), valueCache: cache([2, 2, 4, 5]) }, { scatterMode: "NHSD" }];
};

/** Two sequences of 3 and 2 tokens, two heads. */
export const packed = (scatterMode: "Alibi" | "Rope" | "Omni"): Base => [
  {
    key: ones([5, 2, 4]),
    value: ones([5, 2, 3]),
    keyCache: cache([4, 3, 1, 4]),
    valueCache: cache([4, 3, 1, 3]),
    slotMapping: int([4], [0, 3, 6, 8]),
    compressLens: int([4], [1, 2, 1, 1]),
    compressSeqOffset: scatterMode === "Alibi" ? undefined : int([4], [0, 1, 0, -1]),
    seqLens: int([2], [3, 2]),
  },
  { scatterMode },
];

export const padded = (mean: boolean): Base => [
  {
    ...packed("Rope")[0],
    key: ones([2, 3, 2, 4]),
    value: ones([2, 3, 2, 3]),
    slotMapping: int([2, 2], [0, 3, 6, 8]),
    compressLens: int([2, 2], [1, 2, 1, 1]),
    compressSeqOffset: mean ? int([4], [0, 1, 0, -1]) : undefined,
  },
  {},
];

export interface Refusal {
  readonly name: string;
  readonly base: () => Base;
  readonly inputs?: Partial<Record<keyof ScatterPaKvCacheInputs, Tensor | undefined>>;
  readonly options?: Partial<Record<keyof ScatterPaKvCacheOptions, unknown>>;
  readonly throws: RegExp;
  readonly code?: ErrorCode;
}

export const argument = { code: "invalid-argument" } as const;
export const type = { code: "type-mismatch" } as const;

/** Tests that each of these is refused, in place and functionally, with not a byte written. */
export function refuse(refusals: readonly Refusal[]): void {
  for (const { name, base, inputs: change, options: others, throws, code = "shape-mismatch" } of refusals) {
    test(`refused, with nothing written: ${name}`, () => {
      for (const inPlace of [true, false]) {
        const [inputs, options] = base();
        const given = { ...inputs, ...change } as ScatterPaKvCacheInputs;
        const caches = [given.keyCache, given.valueCache].filter((tensor) => tensor !== undefined);
        const before = caches.map(bitsOf);
        let error: unknown;
        try {
          scatterPaKvCache(given, { ...options, ...(others as ScatterPaKvCacheOptions), inPlace });
        } catch (thrown) {
          error = thrown;
        }
        expect(error).toBeInstanceOf(InsituError);
        expect((error as InsituError).message).toMatch(throws);
        expect((error as InsituError).message).toMatch(/^ops\.scatterPaKvCache: /);
        expect((error as InsituError).code).toBe(code);
        expect(caches.map(bitsOf)).toEqual(before);
      }
    });
  }
}
