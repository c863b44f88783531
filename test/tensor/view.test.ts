/** Views against nested loops: slices, transposes, broadcasts, contiguity and the walks over indices. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { allocateStorage, byteLengthOf, elementTypes, storageLengthOf } from "../../src/tensor/element-type.js";
import {
  coversStorage,
  elementCount,
  forEachIndex,
  forEachIndexPair,
  rowMajorStrides,
  View,
} from "../../src/tensor/view.js";
import { expectError, indicesOf, layouts, sampled, seed, shapes } from "./support.js";

const viewOf = (shape: readonly number[], offset: number, strides: readonly number[]): View =>
  new View("int32", shape, new Int32Array(0), offset, strides);

const views = shapes.chain((shape) =>
  layouts(shape, true).map(({ offset, strides }) => viewOf(shape, offset, strides)),
);

/** The view's own indices, arranged by the coordinates that `pick` makes of each result coordinate. */
function picked(view: View, shape: readonly number[], pick: (at: number[]) => number[]): number[] {
  const coordinates = shape.reduce<number[][]>(
    (all, dim) => all.flatMap((at) => Array.from({ length: dim }, (_, i) => [...at, i])),
    [[]],
  );
  return coordinates.map((at) => pick(at).reduce((index, i, axis) => index + i * view.strides[axis], view.offset));
}

describe(`random views from seed ${seed}`, () => {
  test("forEachIndex visits every index in row-major order", () => {
    fc.assert(
      fc.property(views, (view) => {
        const seen: number[] = [];
        forEachIndex(view, (index, position) => {
          expect(position).toBe(seen.length);
          seen.push(index);
        });
        expect(seen).toEqual(indicesOf(view));
        expect(seen).toHaveLength(view.size);
      }),
      sampled(1_000),
    );
  });

  test("forEachIndexPair visits two views side by side", () => {
    const pairs = shapes.chain((shape) => fc.tuple(layouts(shape, true), layouts(shape, true), fc.constant(shape)));
    fc.assert(
      fc.property(pairs, ([a, b, shape]) => {
        const [first, second] = [viewOf(shape, a.offset, a.strides), viewOf(shape, b.offset, b.strides)];
        const seen: [number, number][] = [];
        forEachIndexPair(first, second, (index, other) => seen.push([index, other]));
        const others = indicesOf(second);
        expect(seen).toEqual(indicesOf(first).map((index, at) => [index, others[at]]));
      }),
      sampled(1_000),
    );
  });

  test("slice takes rows of one axis", () => {
    const slices = views
      .filter((view) => view.rank > 0)
      .chain((view) => fc.record({ view: fc.constant(view), axis: fc.nat(view.rank - 1), a: fc.nat(7), b: fc.nat(7) }));
    fc.assert(
      fc.property(slices, ({ view, axis, a, b }) => {
        const [start, end] = [Math.min(a, b, view.shape[axis]), Math.min(Math.max(a, b), view.shape[axis])];
        const part = view.slice(axis, start, end);
        expect(part.shape).toEqual(view.shape.with(axis, end - start));
        expect(indicesOf(part)).toEqual(
          picked(view, part.shape, (at) => at.map((i, k) => (k === axis ? i + start : i))),
        );
      }),
      sampled(1_000),
    );
  });

  test("transpose reorders axes", () => {
    const transposes = views.chain((view) =>
      fc.tuple(
        fc.constant(view),
        fc.shuffledSubarray([...view.shape.keys()], { minLength: view.rank, maxLength: view.rank }),
      ),
    );
    fc.assert(
      fc.property(transposes, ([view, order]) => {
        const turned = view.transpose(order);
        expect(turned.shape).toEqual(order.map((axis) => view.shape[axis]));
        expect(indicesOf(turned)).toEqual(
          picked(view, turned.shape, (at) => {
            const source = new Array<number>(view.rank);
            order.forEach((axis, position) => (source[axis] = at[position]));
            return source;
          }),
        );
      }),
      sampled(1_000),
    );
  });

  test("broadcastTo repeats dimensions of 1 and adds leading ones", () => {
    const broadcasts = views.chain((view) =>
      fc.record({
        view: fc.constant(view),
        lead: fc.array(fc.nat(3), { maxLength: 2 }),
        wide: fc.array(fc.nat(4), { minLength: view.rank, maxLength: view.rank }),
      }),
    );
    fc.assert(
      fc.property(broadcasts, ({ view, lead, wide }) => {
        const shape = [...lead, ...view.shape.map((dim, axis) => (dim === 1 ? wide[axis] : dim))];
        const repeated = view.broadcastTo(shape);
        expect(repeated.shape).toEqual(shape);
        expect(indicesOf(repeated)).toEqual(
          picked(view, shape, (at) => at.slice(lead.length).map((i, axis) => (view.shape[axis] === 1 ? 0 : i))),
        );
      }),
      sampled(1_000),
    );
  });

  test("contiguous says whether the indices follow each other", () => {
    fc.assert(
      fc.property(views, (view) => {
        const indices = indicesOf(view);
        expect(view.contiguous).toBe(indices.every((index, at) => index === view.offset + at));
      }),
      sampled(2_000),
    );
  });

  test("reshape keeps the order of a contiguous view", () => {
    fc.assert(
      fc.property(shapes, fc.nat(9), (shape, offset) => {
        const view = new View("int32", shape, new Int32Array(0), offset);
        const flat = view.reshape([view.size]);
        expect(indicesOf(flat)).toEqual(indicesOf(view));
        expect(view.contiguous && flat.contiguous).toBe(true);
      }),
      sampled(300),
    );
  });
});

describe("allocate", () => {
  test.each(elementTypes)("%s: zeroed, contiguous, of the right length", (type) => {
    for (const shape of [[], [0], [5], [3, 0, 2], [2, 3, 5], [7]]) {
      const view = View.allocate(type, shape);
      expect(view.size).toBe(elementCount(shape));
      expect(view.data).toHaveLength(storageLengthOf(type, view.size));
      expect(view.data).toEqual(allocateStorage(type, view.size));
      expect(view.contiguous && coversStorage(view)).toBe(true);
      expect(view.byteLength).toBe(byteLengthOf(type, view.size));
      expect(String(view)).toBe(`${type}[${shape.join(",")}]`);
    }
  });

  test("more than can be addressed is out of memory", () => {
    expectError(
      () => View.allocate("float32", [2 ** 40]),
      "out-of-memory",
      /float32\[1099511627776\] of 4398046511104/,
    );
    expectError(() => View.allocate("int2", [2 ** 52]), "out-of-memory", /int2/);
    expectError(() => View.allocate("string", [2 ** 40]), "out-of-memory", /string/);
    expectError(() => elementCount([2 ** 52, 4]), "out-of-memory", /more elements than can be addressed/);
    expectError(() => elementCount([1e308, 1e308]), "out-of-memory", /more elements/);
    expect(elementCount([2 ** 52, 0, 4])).toBe(0);
  });
});

test("packed lengths are rounded up to whole bytes", () => {
  const lengths = (type: "int2" | "int4" | "float6e2m3"): number[] =>
    [0, 1, 2, 3, 4, 5, 8, 9].map((count) => storageLengthOf(type, count));
  expect(lengths("int2")).toEqual([0, 1, 1, 1, 1, 2, 2, 3]);
  expect(lengths("int4")).toEqual([0, 1, 1, 2, 2, 3, 4, 5]);
  expect(lengths("float6e2m3")).toEqual([0, 1, 2, 3, 3, 4, 6, 7]);
  expect(storageLengthOf("complex128", 3)).toBe(6);
  expect(byteLengthOf("complex64", 3)).toBe(24);
  expect(byteLengthOf("string", 3)).toBe(0);
});

test("coversStorage is false for a part, an offset and another order", () => {
  const whole = View.allocate("int4", [2, 4]);
  expect(coversStorage(whole)).toBe(true);
  expect(coversStorage(whole.slice(0, 0, 1))).toBe(false);
  expect(coversStorage(whole.slice(0, 1, 2))).toBe(false);
  expect(coversStorage(whole.transpose([1, 0]))).toBe(false);
  expect(rowMajorStrides([2, 3, 4])).toEqual([12, 4, 1]);
});
