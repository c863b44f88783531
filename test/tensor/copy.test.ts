/** Copies between random strided views of every type, in one storage or two, against element-by-element copies of their bits. */
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import { cloneView, contiguous, copyView, elementCopier } from "../../src/tensor/copy.js";
import {
  arrayConstructorOf,
  type ByteStorage,
  type ElementType,
  elementTypes,
  isPacked,
  type Storage,
  traitsOf,
} from "../../src/tensor/element-type.js";
import { packedBits, setPackedBits } from "../../src/tensor/packed.js";
import { View } from "../../src/tensor/view.js";
import {
  indicesOf,
  layouts,
  randomStorage,
  rawElements,
  rawOf,
  sampled,
  seed,
  setRawElement,
  shapes,
} from "./support.js";

const copyOf = (data: Storage): Storage => data.slice();

/** Both arrays as one: what a test compares to see that nothing else was written. */
const snapshot = (...views: View[]): string[][] => views.map(({ type, data }) => rawElements(type, data));

/** Copies naively, and gives what the target's storage must hold then. */
function copiedSlowly(from: View, to: View): string[] {
  const data = copyOf(to.data);
  const elements = rawOf(from);
  indicesOf(to).forEach((index, at) => setRawElement(to.type, data, index, elements[at]));
  return rawElements(to.type, data);
}

const chance = fc.nat(2 ** 31 - 1);

describe(`random copies from seed ${seed}`, () => {
  describe.each(elementTypes)("%s", (type) => {
    test("copyView between two storages", () => {
      const cases = shapes.chain((shape) =>
        fc.tuple(fc.constant(shape), layouts(shape, true), layouts(shape, false), chance),
      );
      fc.assert(
        fc.property(cases, ([shape, source, target, from]) => {
          const a = new View(type, shape, randomStorage(type, source.extent, from), source.offset, source.strides);
          const b = new View(type, shape, randomStorage(type, target.extent, ~from), target.offset, target.strides);
          const [before] = snapshot(a);
          const expected = copiedSlowly(a, b);
          copyView(a, b);
          expect(snapshot(a, b)).toEqual([before, expected]);
        }),
        sampled(60),
      );
    });

    test("copyView within one storage, also where the places overlap", () => {
      const cases = shapes.chain((shape) =>
        fc.record({
          shape: fc.constant(shape),
          source: layouts(shape, true),
          target: layouts(shape, false),
          // Half the copies move a view as it is: the kind that needs no second storage.
          moved: fc.boolean(),
          shift: fc.integer({ min: -9, max: 9 }),
          from: chance,
        }),
      );
      fc.assert(
        fc.property(cases, ({ shape, source, target, moved, shift, from }) => {
          const data = randomStorage(type, Math.max(source.extent, target.extent) + 40, from);
          const [first, second] = moved
            ? [
                { ...target, offset: target.offset + 20 },
                { ...target, offset: target.offset + 20 + shift },
              ]
            : [source, target];
          const a = new View(type, shape, data, first.offset, first.strides);
          const b = new View(type, shape, data, second.offset, second.strides);
          const expected = copiedSlowly(a, b);
          copyView(a, b);
          expect(snapshot(b)).toEqual([expected]);
        }),
        sampled(80),
      );
    });

    test("elementCopier moves runs, also over themselves", () => {
      fc.assert(
        fc.property(fc.nat(40), fc.nat(40), fc.nat(60), chance, (start, at, count, from) => {
          const view = new View(type, [100], randomStorage(type, 100, from));
          const expected = copiedSlowly(view.slice(0, start, start + count), view.slice(0, at, at + count));
          elementCopier(view, view)(start, at, count);
          expect(snapshot(view)).toEqual([expected]);
        }),
        sampled(60),
      );
    });

    test("contiguous and cloneView keep the elements", () => {
      const cases = shapes.chain((shape) => fc.tuple(fc.constant(shape), layouts(shape, true), chance));
      fc.assert(
        fc.property(cases, ([shape, { offset, strides, extent }, from]) => {
          const view = new View(type, shape, randomStorage(type, extent, from), offset, strides);
          const [plain, clone] = [contiguous(view), cloneView(view)];
          expect(plain.contiguous && clone.contiguous).toBe(true);
          expect(plain === view).toBe(view.contiguous);
          expect(clone.data).not.toBe(view.data);
          expect([rawOf(plain), rawOf(clone)]).toEqual([rawOf(view), rawOf(view)]);
        }),
        sampled(40),
      );
    });
  });

  test("arrays of their own over one buffer overlap too", () => {
    const bytes = elementTypes.filter((type): type is Exclude<ElementType, "string"> => type !== "string");
    fc.assert(
      fc.property(fc.constantFrom(...bytes), fc.nat(12), fc.nat(12), fc.nat(30), chance, (type, a, b, count, from) => {
        const data = randomStorage(type, 64, from) as ByteStorage;
        const constructor = arrayConstructorOf(type);
        const later = (entries: number): ByteStorage =>
          new constructor(data.buffer, entries * constructor.BYTES_PER_ELEMENT);
        // Two entries hold a whole number of elements for none of the 6-bit types, three bytes do.
        const entries = traitsOf(type).bits === 6 ? 3 : 2;
        const perEntries =
          traitsOf(type).kind === "complex" ? 1 : isPacked(type) ? (entries * 8) / traitsOf(type).bits : 2;
        const source = new View(type, [count], later(entries), a);
        const target = new View(type, [count], data, b);
        const whole = new View(type, [64], data);
        const here = whole.slice(0, a + perEntries, a + perEntries + count);
        if (a + perEntries + count > 64 || b + count > 64) return;
        const forth = copiedSlowly(here, target);
        const kept = copyOf(data) as ByteStorage;
        copyView(source, target);
        expect(rawElements(type, data)).toEqual(forth);
        (data as { set(rows: ByteStorage): void }).set(kept);
        const back = copiedSlowly(target, here);
        copyView(target, source);
        expect(rawElements(type, data)).toEqual(back);
      }),
      sampled(2_000),
    );
  });
});

describe("packed elements", () => {
  test.each([2, 4, 6])("of %d bits leave their neighbours alone", (bits) => {
    for (let index = 0; index < 16; index++) {
      for (const fill of [0, 0xff]) {
        const data = new Uint8Array(12).fill(fill);
        const value = 0b101101 & ((1 << bits) - 1);
        setPackedBits(data, bits, index, value);
        for (let other = 0; other < 16; other++)
          expect(packedBits(data, bits, other)).toBe(other === index ? value : fill & ((1 << bits) - 1));
      }
    }
  });

  test("of 6 bits lie as ONNX packs them, four in three bytes", () => {
    const data = new Uint8Array(5);
    [0, 1, 2, 3, 4, 5].forEach((value, index) => setPackedBits(data, 6, index, value));
    expect([...data]).toEqual([0x40, 0x20, 0x0c, 0x44, 0x01]);
  });

  test("values are cut to their bits, negative ones too", () => {
    const data = new Uint8Array(3);
    setPackedBits(data, 4, 1, -1);
    setPackedBits(data, 4, 2, 0x123);
    expect([...data]).toEqual([0xf0, 0x03, 0]);
  });
});

describe("the short ways are taken", () => {
  afterEach(() => vi.restoreAllMocks());

  test.each([
    ["int2", 4],
    ["int4", 2],
    ["float6e3m2", 4],
  ] as const)("%s goes by whole bytes where both places lie alike in them", (type, unit) => {
    const set = vi.spyOn(Uint8Array.prototype, "set");
    const view = (size: number): View => new View(type, [size], randomStorage(type, size, seed));
    copyView(view(1_001), View.allocate(type, [1_001]));
    copyView(view(1_001).slice(0, 1, 999), View.allocate(type, [2_000]).slice(0, unit + 1, unit + 999));
    expect(set).toHaveBeenCalledTimes(2);
  });

  test("rows that move within a cache need no second storage", () => {
    const cache = new View("float32", [2, 8, 3], randomStorage("float32", 48, seed));
    const allocate = vi.spyOn(View, "allocate");
    for (const [from, to] of [
      [0, 2],
      [3, 1],
    ]) {
      const expected = copiedSlowly(cache.slice(1, from, from + 5), cache.slice(1, to, to + 5));
      copyView(cache.slice(1, from, from + 5), cache.slice(1, to, to + 5));
      expect(rawElements("float32", cache.data)).toEqual(expected);
    }
    expect(allocate).not.toHaveBeenCalled();
  });
});

test("copying into another type or size is a bug of ours", () => {
  const of = (type: ElementType, size: number): View => View.allocate(type, [size]);
  expect(() => copyView(of("int4", 2), of("uint4", 2))).toThrow(/^internal: elements of int4\[2\] copied into uint4/);
  expect(() => copyView(of("int4", 2), of("int4", 3))).toThrow(/^internal: int4\[2\] copied into int4\[3\]/);
});
