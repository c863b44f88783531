// Helpers that compare must see every difference there is: a comparison that lets NaN pass proves nothing.
import { describe, expect, test } from "vitest";
import { difference, largestDifference as viewDifference } from "../../tools/conformance/compare.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { writeNumbers } from "../../src/tensor/access.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { expectClose } from "../kernels/workbench.js";
import { largestDifference as recordDifference } from "../passes/support.js";
import { differenceOf } from "../wasm/fast-path.js";
import { apart, compareBits, compareViews, distance, largestDifference } from "./compare.js";

const view = (numbers: readonly number[], type: ElementType = "float32"): View => {
  const made = View.allocate(type, [numbers.length]);
  writeNumbers(made, [...numbers]);
  return made;
};

const throws = (run: () => void): boolean => {
  try {
    run();
    return false;
  } catch {
    return true;
  }
};

type Numbers = readonly number[];

/** Each comparison at a tolerance of about a hundredth: true if it finds the two different. */
const tolerant: Readonly<Record<string, (actual: Numbers, expected: Numbers) => boolean>> = {
  distance: (a, b) => !(distance(a, b) <= 1e-2),
  largestDifference: (a, b) => !(largestDifference(a, b) <= 1e-2),
  compareViews: (a, b) => compareViews(view(a), view(b), { tolerance: 1e-2 }) !== "",
  "conformance, difference": (a, b) => difference(view(a), view(b), { rtol: 1e-2, atol: 1e-2 }) !== undefined,
  "conformance, largestDifference": (a, b) => !(viewDifference(view(a), view(b)) <= 1e-2),
  "fast paths": (a, b) => differenceOf(view(a), view(b), 1e-2, 1e-2) !== "",
  kernels: (a, b) => throws(() => expectClose(a, b, 1e-2, "")),
  passes: (a, b) => {
    const record = (numbers: Numbers): Record<string, Tensor> => ({ y: Tensor.fromView(view(numbers)) });
    return throws(() => expect(recordDifference(record(a), record(b))).toBeLessThanOrEqual(1e-2));
  },
};

/** Comparisons where nothing may be off. */
const exact: Readonly<Record<string, (actual: Numbers, expected: Numbers) => boolean>> = {
  compareViews: (a, b) => compareViews(view(a), view(b)) !== "",
  compareBits: (a, b) => compareBits(view(a), view(b)) !== "",
  "fast paths": (a, b) => differenceOf(view(a), view(b), 0, 0) !== "",
  kernels: (a, b) => throws(() => expectClose(a, b, 0, "")),
};

const different: readonly (readonly [Numbers, Numbers])[] = [
  [[NaN], [5]],
  [[5], [NaN]],
  [[NaN], [0]],
  [[NaN], [Infinity]],
  [[Infinity], [NaN]],
  [[Infinity], [5]],
  [[5], [Infinity]],
  [[-Infinity], [Infinity]],
  [[Infinity], [-Infinity]],
  [[5], [-Infinity]],
  [[3.4e38], [Infinity]],
  [[1], [2]],
  [[1, 2], [1]],
  [[1], [1, 2]],
  [[], [1]],
  [[1], []],
  [
    [1, NaN, 1],
    [1, 1, 1],
  ],
  [
    [NaN, 1],
    [1, NaN],
  ],
];
const same: readonly Numbers[] = [[], [0], [5, -7.5], [NaN], [Infinity, -Infinity], [1, NaN, -Infinity]];

describe.each(Object.keys({ ...tolerant }))("%s", (name) => {
  test("sees what is no number, infinite, longer, or just another number", () => {
    for (const [actual, expected] of different)
      expect(tolerant[name](actual, expected), `[${actual.join()}] against [${expected.join()}]`).toBe(true);
  });
  test("lets pass what is the same, and what is close", () => {
    for (const numbers of same) expect(tolerant[name](numbers, numbers), `[${numbers.join()}]`).toBe(false);
    expect(tolerant[name]([1.001, -0, NaN], [1, 0, NaN])).toBe(false);
  });
});

describe.each(Object.keys(exact))("%s, exactly", (name) => {
  test("sees the sign of zero and the last bit", () => {
    const last: readonly (readonly [Numbers, Numbers])[] = [
      [[-0], [0]],
      [[0], [-0]],
      [[1], [Math.fround(1 + 2 ** -23)]],
    ];
    for (const [actual, expected] of [...different, ...last])
      expect(exact[name](actual, expected), `[${actual.join()}] against [${expected.join()}]`).toBe(true);
    for (const numbers of [...same, [-0, 0]]) expect(exact[name](numbers, numbers), `[${numbers.join()}]`).toBe(false);
  });
});

test("types, shapes, and the bits of NaN", () => {
  for (const compare of [compareViews, compareBits, differenceOf]) {
    expect(compare(view([1]), view([1], "float64"))).not.toBe("");
    expect(compare(view([1, 2]), view([1, 2]).reshape([2, 1]))).not.toBe("");
  }
  expect(difference(view([1]), view([1], "int32"), { rtol: 1, atol: 1 })).toBeDefined();
  expect(viewDifference(view([1]), view([1], "float64"))).toBe(Infinity);
  const integers = (last: bigint): View => new View("int64", [2], BigInt64Array.from([2n ** 60n, last]));
  // Numbers of 64 bits that are one apart are the same as doubles.
  for (const compare of [compareViews, compareBits, differenceOf])
    expect(compare(integers(2n ** 60n + 1n), integers(2n ** 60n))).not.toBe("");
  const [quiet, other] = [0x7fc00000, 0x7fc00001].map(
    (bits) => new View("float32", [1], new Float32Array(Uint32Array.of(bits).buffer)),
  );
  expect(compareViews(quiet, other)).toBe("");
  expect(compareBits(quiet, other)).not.toBe("");
  expect(apart(NaN, NaN)).toBe(0);
});
