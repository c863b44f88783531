/** Elements as JavaScript values: what is read is what was written, in every type and layout, or the refusal to read it. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  isWide,
  numberReader,
  numberWriter,
  readBigInts,
  readIntegers,
  readNumbers,
  readStrings,
  writeBigInts,
  writeIntegers,
  writeNumbers,
  writeStrings,
} from "../../src/tensor/access.js";
import { type ElementType, elementTypes, isPacked, traitsOf } from "../../src/tensor/element-type.js";
import { decodeTable, isSmallFloat } from "../../src/tensor/float.js";
import { View } from "../../src/tensor/view.js";
import { expectError, layouts, randomStorage, rawOf, sampled, seed, shapes } from "./support.js";

const numeric = elementTypes.filter(
  (type) => !isWide(type) && traitsOf(type).kind !== "complex" && traitsOf(type).kind !== "string",
);

/** The number that an element's bits stand for: by the table for small floats, by two's complement for integers. */
function numberOf(type: ElementType, raw: string): number {
  if (isSmallFloat(type)) return decodeTable(type)[parseInt(raw, 2)];
  if (type === "float32") return new Float32Array(Uint32Array.of(parseInt(raw, 2)).buffer)[0];
  if (type === "float64") return new Float64Array(BigUint64Array.of(BigInt(`0b${raw}`)).buffer)[0];
  const value = parseInt(raw, 2);
  return traitsOf(type).signed && raw[0] === "1" ? value - 2 ** raw.length : value;
}

const placed = (type: ElementType, repeats: boolean): fc.Arbitrary<View> =>
  shapes.chain((shape) =>
    fc
      .tuple(layouts(shape, repeats), fc.nat(2 ** 31 - 1))
      .map(
        ([{ offset, strides, extent }, from]) =>
          new View(type, shape, randomStorage(type, extent, from), offset, strides),
      ),
  );

describe(`random views from seed ${seed}`, () => {
  test.each(numeric)("%s is read as the numbers its bits stand for", (type) => {
    fc.assert(
      fc.property(placed(type, true), (view) => {
        const expected = rawOf(view).map((raw) => numberOf(type, raw));
        expect(Array.from(readNumbers(view))).toEqual(expected);
      }),
      sampled(100),
    );
  });

  test.each(numeric)("%s is written and read back", (type) => {
    fc.assert(
      fc.property(placed(type, false), fc.nat(), (view, from) => {
        const { kind, signed, bits } = traitsOf(type);
        const values = Array.from({ length: view.size }, (_, i) => {
          const step = (from + i * 7) % 4;
          if (type === "float8e8m0") return 2 ** step;
          return kind === "bool" ? step % 2 : signed && bits > 2 ? step - 2 : signed ? step % 2 : step;
        });
        writeNumbers(view, values);
        expect(Array.from(readNumbers(view), (x) => x + 0)).toEqual(values);
      }),
      sampled(100),
    );
  });

  test.each(["int64", "uint64"] as const)("%s keeps all its bits", (type) => {
    fc.assert(
      fc.property(placed(type, false), (view) => {
        const expected = rawOf(view).map((raw) => {
          const value = BigInt(`0b${raw}`);
          return type === "int64" ? BigInt.asIntN(64, value) : value;
        });
        expect(Array.from<bigint>(readBigInts(view))).toEqual(expected);
        expect(Array.from(readNumbers(view))).toEqual(expected.map(Number));
        writeBigInts(view, expected.toReversed());
        expect(Array.from<bigint>(readBigInts(view))).toEqual(expected.toReversed());
      }),
      sampled(100),
    );
  });

  test("strings", () => {
    fc.assert(
      fc.property(placed("string", false), (view) => {
        const expected = rawOf(view);
        expect(readStrings(view)).toEqual(expected);
        writeStrings(view, expected.toReversed());
        expect(readStrings(view)).toEqual(expected.toReversed());
      }),
      sampled(100),
    );
  });
});

test("contiguous numbers are read without a copy", () => {
  const view = new View("int16", [2, 2], Int16Array.of(1, 2, 3, 4, 5, 6), 1);
  expect(readNumbers(view).buffer).toBe((view.data as Int16Array).buffer);
  expect(Array.from(readNumbers(view))).toEqual([2, 3, 4, 5]);
});

test("numbers wrap to integers and round to floats", () => {
  const written = (type: ElementType, values: number[]): number[] => {
    const view = View.allocate(type, [values.length]);
    writeNumbers(view, values);
    return Array.from(readNumbers(view));
  };
  expect(written("int8", [200, -129, 1.9, -1.9])).toEqual([-56, 127, 1, -1]);
  expect(written("uint4", [-1, 16, 7])).toEqual([15, 0, 7]);
  expect(written("int2", [2, -3, 1])).toEqual([-2, 1, 1]);
  expect(written("bool", [2, 0, -1, NaN])).toEqual([1, 0, 1, 0]);
  expect(written("int64", [2 ** 40, -1.5])).toEqual([2 ** 40, -1]);
  expect(written("float16", [1e6, 0.1])).toEqual([Infinity, decodeTable("float16")[0x2e66]]);
  expect(written("float6e3m2", [29, -0.05, 1.1])).toEqual([28, -0.0625, 1]);
});

test("numberWriter takes the treatment of what is out of range", () => {
  const view = View.allocate("float8e5m2", [2]);
  numberWriter(view, { saturate: true })(0, 1e9);
  numberWriter(view)(1, 1e9);
  expect(Array.from(readNumbers(view))).toEqual([57344, Infinity]);
});

describe("integers for indices", () => {
  test("come exactly, or are refused", () => {
    const of = (...values: bigint[]): View => new View("int64", [values.length], BigInt64Array.from(values));
    expect(readIntegers(of(-1n, 2n ** 53n - 1n))).toEqual([-1, 2 ** 53 - 1]);
    // The ends of the range say "as far as there is".
    expect(readIntegers(of(2n ** 63n - 1n, -(2n ** 63n)))).toEqual([2 ** 63, -(2 ** 63)]);
    expectError(() => readIntegers(of(2n ** 60n)), "invalid-argument", /the integer 1152921504606846976 is too large/);
  });

  test("come alike whether they are few or many, from wherever they lie", () => {
    const values = [0n, -1n, 2n ** 31n, -(2n ** 31n) - 1n, 2n ** 32n, 2n ** 53n - 1n, 1n - 2n ** 53n, 7n];
    for (const copies of [1, 5]) {
      const data = BigInt64Array.from(Array.from({ length: copies }, () => values).flat());
      const numbers = Array.from(data, Number);
      expect(readIntegers(new View("int64", [data.length], data))).toEqual(numbers);
      expect(readIntegers(new View("int64", [data.length - 3], data, 3))).toEqual(numbers.slice(3));
      expect(readIntegers(new View("int64", [4], data, 1, [2]))).toEqual([1, 3, 5, 7].map((at) => numbers[at]));
    }
    expect(readIntegers(new View("uint64", [1], BigUint64Array.of(2n ** 53n - 1n)))).toEqual([2 ** 53 - 1]);
    expect(readIntegers(View.allocate("int64", [0]))).toEqual([]);
  });

  test("go into any integer type", () => {
    for (const type of ["int64", "int32", "uint8", "int4"] as const) {
      const view = View.allocate(type, [3]);
      writeIntegers(view, [0, 3, 7]);
      expect(readIntegers(view)).toEqual([0, 3, 7]);
    }
  });
});

describe("what cannot be read", () => {
  // One element that stands for many: a view as large as can be without the memory behind it.
  const huge = (type: ElementType): View => new View(type, [2 ** 34], View.allocate(type, [1]).data, 0, [0]);

  test.each(elementTypes.filter((type) => isSmallFloat(type) || isPacked(type)))("%s too large to unpack", (type) => {
    expectError(() => readNumbers(huge(type)), "out-of-memory", /\[17179869184\] of \d+ bytes cannot be allocated/);
  });

  test.each(["float32", "int8", "int64", "uint64"] as const)("%s too large to lay out", (type) => {
    expectError(() => readNumbers(huge(type)), "out-of-memory", /cannot be allocated/);
  });

  test("64-bit integers and strings too large to lay out", () => {
    expectError(() => readBigInts(huge("int64")), "out-of-memory", /int64\[17179869184\]/);
    expectError(() => readStrings(huge("string")), "out-of-memory", /string\[17179869184\]/);
  });

  test.each(["complex64", "string"] as const)("%s as numbers", (type) => {
    const view = View.allocate(type, [1]);
    for (const run of [readNumbers, numberReader, numberWriter])
      expectError(() => run(view), "internal", /^internal: .* no plain numbers/);
  });

  test("int64 by a reader of numbers", () => {
    expectError(() => numberReader(View.allocate("int64", [1])), "internal", /int64\[1\] has no plain numbers/);
  });
});
