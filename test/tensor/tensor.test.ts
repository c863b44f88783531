/** The tensor users hold: how it is made of every element type, what it refuses, and what it can do. */
import { describe, expect, test } from "vitest";
import {
  allocateStorage,
  arrayConstructorOf,
  type ElementType,
  elementTypeOfCode,
  elementTypes,
  isElementType,
  isPacked,
  onnxSpelling,
  storageLengthOf,
  traitsOf,
} from "../../src/tensor/element-type.js";
import { isSmallFloat } from "../../src/tensor/float.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { expectError, randomStorage, rawElements } from "./support.js";

/** `new Tensor` as JavaScript may call it. */
const make = (...args: unknown[]): Tensor => Reflect.construct(Tensor, args) as Tensor;

describe.each(elementTypes)("%s", (type) => {
  test("is made of the caller's own array", async () => {
    const data = randomStorage(type, 6, 1);
    const tensor = new Tensor(type, data, [2, 3]);
    expect(tensor).toBeInstanceOf(Tensor);
    expect(tensor).toMatchObject({ type, dims: [2, 3], size: 6, location: "cpu" });
    expect(tensor.data).toBe(data);
    expect(await tensor.getData()).toBe(data);
    expect(String(tensor)).toBe(`${type}[2,3]`);
  });

  test("may be a scalar, or empty", () => {
    const scalar = new Tensor(type, allocateStorage(type, 1), []);
    expect(scalar).toMatchObject({ dims: [], size: 1 });
    const empty = new Tensor(type, allocateStorage(type, 0), [3, 0]);
    expect(empty).toMatchObject({ dims: [3, 0], size: 0 });
  });

  test("refuses data of another length", () => {
    for (const [size, dims] of [
      [5, [4, 4]],
      [9, [2]],
      [0, []],
    ] as const) {
      const [needed, given] = [
        storageLengthOf(
          type,
          dims.reduce((a, b) => a * b, 1),
        ),
        storageLengthOf(type, size),
      ];
      expectError(
        () => new Tensor(type, allocateStorage(type, size), dims),
        "invalid-argument",
        new RegExp(`^Tensor: ${type}\\[${dims.join(",")}\\] needs ${needed} entries of data, got ${given}$`),
      );
    }
  });

  test("refuses dims that are none", () => {
    const data = allocateStorage(type, 4);
    for (const dims of [[-4], [2, -2], [1.5], [NaN], ["4"], [4, undefined], [2 ** 53]])
      expectError(() => make(type, data, dims), "invalid-argument", /dims must be non-negative integers, got \[/);
    for (const dims of [4, null, "4", Int32Array.of(4), { length: 1 }])
      expectError(() => make(type, data, dims), "invalid-argument", /dims must be a number array/);
    expectError(() => new Tensor(type, data, [2 ** 52, 8]), "out-of-memory", /more elements than can be addressed/);
  });

  test("refuses an array of another class", () => {
    const others = [Float32Array, Float64Array, Int32Array, Uint16Array, BigInt64Array, Uint8Array, DataView, Map];
    const own = type === "string" ? undefined : arrayConstructorOf(type).name;
    for (const Other of others) {
      if (Other.name === own) continue;
      const other: unknown = Other === DataView ? new DataView(new ArrayBuffer(2)) : Reflect.construct(Other, []);
      expectError(
        () => make(type, other, [0]),
        "invalid-argument",
        new RegExp(`^Tensor: data of type ${type} must be`),
      );
    }
    expectError(() => make(type, undefined, [0]), "invalid-argument", /data is missing/);
    expectError(() => make(type, null, [0]), "invalid-argument", /data is missing/);
  });

  test("can be reshaped, seen as a view, and disposed of", async () => {
    const tensor = new Tensor(type, randomStorage(type, 6, 2), [2, 3]);
    const other = tensor.reshape([3, 1, 2]);
    expect(other).toBeInstanceOf(Tensor);
    expect(other).toMatchObject({ type, dims: [3, 1, 2], size: 6 });
    expect(other.data).toBe(tensor.data);
    expectError(() => tensor.reshape([4, 2]), "invalid-argument", /\[2,3\] of 6 elements cannot become \[4,2\]/);
    expectError(() => tensor.reshape([-1]), "invalid-argument", /dims must be non-negative integers, got \[-1\]/);
    const view = tensor.toView();
    expect(view).toMatchObject({ type, shape: [2, 3], offset: 0, size: 6, contiguous: true });
    expect(view.data).toBe(tensor.data);
    tensor.dispose();
    tensor.dispose();
    expect(tensor.location).toBe("none");
    expect(tensor).toMatchObject({ type, dims: [2, 3], size: 6 });
    const gone = new RegExp(`^Tensor: ${type}\\[2,3\\] was disposed$`);
    expectError(() => tensor.data, "invalid-argument", gone);
    expectError(() => tensor.reshape([6]), "invalid-argument", gone);
    expectError(() => tensor.toView(), "invalid-argument", gone);
    await expect(tensor.getData()).rejects.toThrow(gone);
    expect(other.location).toBe("cpu");
  });

  test("is made of a view: shared where it is the whole storage, else copied", () => {
    const view = new View(type, [2, 4], randomStorage(type, 8, 3));
    expect(Tensor.fromView(view).data).toBe(view.data);
    const row = Tensor.fromView(view.slice(0, 1, 2));
    expect(row.dims).toEqual([1, 4]);
    expect(rawElements(type, row.data).slice(0, 4)).toEqual(rawElements(type, view.data).slice(4, 8));
  });

  test("has a code and ONNX's spelling", () => {
    expect(elementTypeOfCode(traitsOf(type).code)).toBe(type);
    const spelled = { float32: "float", float64: "double" }[type as string] ?? type;
    expect(onnxSpelling(type)).toBe(`tensor(${spelled})`);
  });
});

describe("the type", () => {
  test("is told by the array where it is left out", () => {
    const arrays: readonly [ElementType, unknown][] = [
      ["float32", Float32Array.of(1)],
      ["float64", Float64Array.of(1)],
      ["int8", Int8Array.of(1)],
      ["uint8", Uint8Array.of(1)],
      ["uint8", Uint8ClampedArray.of(1)],
      ["uint8", Buffer.from([1])],
      ["int16", Int16Array.of(1)],
      ["uint16", Uint16Array.of(1)],
      ["int32", Int32Array.of(1)],
      ["uint32", Uint32Array.of(1)],
      ["int64", BigInt64Array.of(1n)],
      ["uint64", BigUint64Array.of(1n)],
      ["string", ["a"]],
      ["bool", [true]],
    ];
    for (const [type, data] of arrays) {
      expect(make(data)).toMatchObject({ type, dims: [1], size: 1 });
      expect(make(data, [1, 1])).toMatchObject({ type, dims: [1, 1] });
    }
  });

  test("may be ONNX's own name", () => {
    expect(new Tensor("float", [1.5], [1]).type).toBe("float32");
    expect(new Tensor("double", Float64Array.of(1), [1]).type).toBe("float64");
  });

  test("must be one of ONNX", () => {
    for (const name of ["float128", "", "Float32", "constructor", "__proto__", "toString"]) {
      expectError(
        () => make(name, [], [0]),
        "invalid-argument",
        new RegExp(`"${name}" is not an element type of ONNX`),
      );
      expect(isElementType(name)).toBe(false);
    }
    expectError(() => make([1, 2], [2]), "invalid-argument", /an array of numbers needs its type/);
    expectError(() => make([1n], [1]), "invalid-argument", /an array of bigints needs its type/);
    expectError(() => make([], [0]), "invalid-argument", /an empty array needs its type/);
    for (const data of [undefined, null, {}, 3, new DataView(new ArrayBuffer(4)), new ArrayBuffer(4), new Set()])
      expectError(() => make(data, [1]), "invalid-argument", /data must be a typed array or an array, got /);
  });

  test("has a code of its own from 1 to 28", () => {
    expect(elementTypes.map((type) => traitsOf(type).code).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 28 }, (_, i) => i + 1),
    );
    expect(elementTypeOfCode(0) ?? elementTypeOfCode(29)).toBeUndefined();
  });
});

describe("dims that are left out", () => {
  test("are one dimension", () => {
    expect(new Tensor("float32", new Float32Array(5)).dims).toEqual([5]);
    expect(new Tensor("string", ["a", "b"]).dims).toEqual([2]);
    expect(new Tensor("complex64", new Float32Array(6)).dims).toEqual([3]);
    expectError(() => new Tensor("complex64", new Float32Array(5)), "invalid-argument", /\[2\] needs 4 entries/);
  });

  test.each(elementTypes.filter(isPacked))("cannot be told from the bytes of %s", (type) => {
    expectError(() => new Tensor(type, new Uint8Array(3)), "invalid-argument", /needs dims: its 3 bytes do not tell/);
    expect(new Tensor(type, new Uint8Array(0)).dims).toEqual([0]);
  });

  test("are not those that the caller may change later", () => {
    const dims = [2, 2];
    const tensor = new Tensor("int8", new Int8Array(4), dims);
    dims[0] = 9;
    expect(tensor.dims).toEqual([2, 2]);
  });
});

describe("plain arrays", () => {
  test("become numbers of the type", () => {
    expect(new Tensor("float32", [1, 2.5], [2]).data).toEqual(Float32Array.of(1, 2.5));
    expect(new Tensor("uint8", [1, 255, 256, 1.9], [4]).data).toEqual(Uint8Array.of(1, 255, 0, 1));
    expect(new Tensor("complex128", [1, 2], [1]).data).toEqual(Float64Array.of(1, 2));
    expect(make("float64", [1n, true], [2]).data).toEqual(Float64Array.of(1, 1));
  });

  test("become bools and 64-bit integers", () => {
    expect(new Tensor("bool", [true, false]).data).toEqual(Uint8Array.of(1, 0));
    expect(new Tensor("bool", [2, 0, -0.5]).data).toEqual(Uint8Array.of(1, 0, 1));
    expect(new Tensor("int64", [1, -2]).data).toEqual(BigInt64Array.of(1n, -2n));
    expect(new Tensor("int64", [-(2n ** 63n)]).data).toEqual(BigInt64Array.of(-(2n ** 63n)));
    expect(new Tensor("uint64", [2n ** 64n - 1n]).data).toEqual(BigUint64Array.of(2n ** 64n - 1n));
  });

  test("of float16 are values, rounded", () => {
    expect(new Tensor("float16", [1, -2, 65520, 0.1]).data).toEqual(Uint16Array.of(0x3c00, 0xc000, 0x7c00, 0x2e66));
  });

  const patterns = elementTypes.filter((type) => type !== "float16" && (isSmallFloat(type) || isPacked(type)));
  test.each(patterns)("of %s could be values or patterns, and are refused", (type) => {
    expectError(() => make(type, [1], [1]), "invalid-argument", /must be its bit patterns in a Uint(8|16)Array/);
  });

  test("refuse what is no number or no string", () => {
    expectError(() => make("float32", [1, "2"], [2]), "invalid-argument", /must be numbers, got string at 1/);
    expectError(() => make("int32", [null], [1]), "invalid-argument", /must be numbers, got object at 0/);
    expectError(() => make("float16", [undefined], [1]), "invalid-argument", /must be numbers, got undefined at 0/);
    expectError(() => make("int64", [1.5], [1]), "invalid-argument", /must be integers, got 1.5 at 0/);
    expectError(() => make("int64", [NaN], [1]), "invalid-argument", /must be integers, got NaN at 0/);
    expectError(() => make("uint64", ["1"], [1]), "invalid-argument", /must be integers, got string at 0/);
    expectError(() => make("string", ["a", 1], [2]), "invalid-argument", /must be strings, got number at 1/);
  });
});

test("the bytes of clamped and half-float arrays are shared", () => {
  const clamped = Uint8ClampedArray.of(7, 8, 9).subarray(1);
  const tensor = new Tensor("uint8", clamped, [2]);
  tensor.data[0] = 42;
  expect([...clamped]).toEqual([42, 9]);
  expect(tensor.data.constructor).toBe(Uint8Array);
  // A class that is told by its name alone, as newer engines have it.
  const half = new Uint16Array([0, 0x3c00, 0xc000]).subarray(1);
  Object.defineProperty(half, Symbol.toStringTag, { value: "Float16Array" });
  for (const made of [make("float16", half, [2]), make(half)]) {
    expect(made).toMatchObject({ type: "float16", dims: [2], data: Uint16Array.of(0x3c00, 0xc000) });
    expect((made.data as Uint16Array).buffer).toBe(half.buffer);
  }
});
