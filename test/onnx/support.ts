/** Helpers of these tests: models without their sources, files, seeded random numbers. */
import { readFileSync, readdirSync } from "node:fs";
import { expect } from "vitest";
import { type ErrorCode, InsituError } from "../../src/base/error.js";

const folder = new URL("./data/", import.meta.url);

/** The stored models by name. */
export const storedModels: ReadonlyMap<string, Uint8Array> = new Map(
  readdirSync(folder)
    .filter((name) => name.endsWith(".onnx"))
    .map((name) => [name, new Uint8Array(readFileSync(new URL(name, folder)))]),
);

/** The same data with every `source` left out: for comparing what was read, and for writing from nothing. */
export function withoutSource<T>(part: T): T {
  if (typeof part !== "object" || part === null || ArrayBuffer.isView(part)) return part;
  if (Array.isArray(part)) return part.map(withoutSource) as T;
  if (part instanceof Map) return new Map([...part].map(([key, value]) => [key, withoutSource(value)])) as T;
  return Object.fromEntries(
    Object.entries(part)
      .filter(([key]) => key !== "source")
      .map(([key, value]) => [key, withoutSource(value)]),
  ) as T;
}

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

/** Expects a rejection with this code and message. */
export async function expectRejection(promise: Promise<unknown>, code: ErrorCode, message: RegExp): Promise<void> {
  const error = await promise.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  expectError(
    () => {
      if (error !== undefined) throw error;
    },
    code,
    message,
  );
}

/** A small seeded generator (mulberry32): integers below `bound`. */
export function randomIntegers(seed: number): (bound: number) => number {
  let state = seed >>> 0;
  return (bound) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * bound);
  };
}
