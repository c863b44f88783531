// Random paged writes against the reference implementation: every scenario, every element type, both index types; functional and in place.
import { expect, test } from "vitest";
import { scatterPaKvCache } from "../../packages/functions/paged.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { bitsOf, cloneOf } from "./bits.js";
import { decode, isFloat, slowScatter } from "./oracle.js";
import { randomCase, type ScenarioName, scenarios } from "./random-case.js";
import { soak } from "../support/soak.js";

const count = soak ? 2_000 : 200;
const firstSeed = Number(process.env["INSITU_SEED"] ?? 41_120_254);

/** The first difference between bit patterns, or nothing. A mean that is no number may have any of its patterns. */
function difference(
  type: ElementType,
  found: readonly number[],
  expected: readonly number[],
  averaged: boolean,
): string {
  if (found.length !== expected.length) return `${found.length} elements, expected ${expected.length}`;
  for (let at = 0; at < expected.length; at++) {
    if (found[at] === expected[at]) continue;
    if (averaged && isFloat(type) && Number.isNaN(decode(type, found[at])) && Number.isNaN(decode(type, expected[at])))
      continue;
    return `element ${at} is ${found[at].toString(16)}, expected ${expected[at].toString(16)}`;
  }
  return "";
}

for (const [position, name] of (Object.keys(scenarios) as ScenarioName[]).entries()) {
  test(`${name}: ${count} random cases from seed ${firstSeed + position * 1_000_003}`, () => {
    for (let number = 0; number < count; number++) {
      const seed = firstSeed + position * 1_000_003 + number;
      const { inputs, options, slow, sides } = randomCase(name, number, seed);
      const averaged = slow.mode === "mean" || slow.mode === "Rope";
      const expected = sides.map((side) => slowScatter(slow, side));
      const compare = (way: string, result: ReturnType<typeof scatterPaKvCache>): void => {
        [result.keyCache, result.valueCache].forEach((cache, at) => {
          const side = sides[at];
          if (side === undefined) return expect(cache).toBeUndefined();
          const problem = difference(side.type, bitsOf(cache!), expected[at], averaged);
          if (problem !== "")
            throw new Error(
              `seed ${seed}, ${way}, ${at === 0 ? "keys" : "values"} ${cache!.type}[${cache!.dims}]: ${problem}\n${JSON.stringify({ options, slow })}`,
            );
        });
      };
      const result = scatterPaKvCache(inputs, options);
      compare("functional", result);
      sides.forEach((side, at) => {
        const given = at === 0 ? inputs.keyCache : inputs.valueCache!;
        expect(difference(side.type, bitsOf(given), side.cache, false), `seed ${seed}: a given cache`).toBe("");
      });
      const keyCache = cloneOf(inputs.keyCache);
      const valueCache = inputs.valueCache && cloneOf(inputs.valueCache);
      const inPlace = scatterPaKvCache({ ...inputs, keyCache, valueCache }, { ...options, inPlace: true });
      expect(inPlace.keyCache).toBe(keyCache);
      expect(inPlace.valueCache).toBe(valueCache);
      compare("in place", inPlace);
    }
  });
}
