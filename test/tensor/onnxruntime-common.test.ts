/** Code as it is written for onnxruntime-common's Tensor: it must run, and it must compile with the types it names. */
import { expect, test } from "vitest";
import { Tensor, type TypedTensor } from "../../src/tensor/tensor.js";

test("tensors by type", () => {
  const floats: TypedTensor<"float32"> = new Tensor("float32", new Float32Array([1, 2, 3, 4, 5, 6]), [2, 3]);
  const data: Float32Array = floats.data;
  expect(data[5]).toBe(6);
  const numbers = new Tensor("int32", [1, 2, 3, 4], [2, 2]);
  expect(numbers.data.map((x) => x * 2)).toEqual(Int32Array.of(2, 4, 6, 8));
  const ids = new Tensor("int64", [1n, 2n], [1, 2]);
  expect(ids.data[1] + 1n).toBe(3n);
  expect(new Tensor("int64", [1, 2], [1, 2]).data).toEqual(ids.data);
  const mask = new Tensor("bool", [true, false, true], [3]);
  expect(Array.from(mask.data, Boolean)).toEqual([true, false, true]);
  const words: Tensor = new Tensor("string", ["a", "b"], [2]);
  expect((words.data as string[]).join()).toBe("a,b");
  const nibbles = new Tensor("int4", new Uint8Array(2), [3]);
  expect(nibbles.size).toBe(3);
  const halves = new Tensor("float16", new Uint16Array(4), [4]);
  expect(halves.data.BYTES_PER_ELEMENT).toBe(2);
});

test("tensors by data", () => {
  const floats: TypedTensor<"float32"> = new Tensor(new Float32Array(6), [2, 3]);
  const longs: TypedTensor<"int64"> = new Tensor(new BigInt64Array(2), [2]);
  const pixels: TypedTensor<"uint8"> = new Tensor(new Uint8ClampedArray(4), [4]);
  const words: TypedTensor<"string"> = new Tensor(["x", "y"], [2]);
  const flags: TypedTensor<"bool"> = new Tensor([true, false]);
  expect([floats.type, longs.type, pixels.type, words.type, flags.type]).toEqual([
    "float32",
    "int64",
    "uint8",
    "string",
    "bool",
  ]);
});

test("type names, the location, and the life of the data", async () => {
  const type: Tensor.Type = "float32";
  const map: Tensor.DataTypeMap["float32"] = Float32Array.of(1, 2);
  const tensor: Tensor = new Tensor(type, map, [2]);
  const location: Tensor.DataLocation = tensor.location;
  expect(location).toBe("cpu");
  const data: Tensor.DataType = await tensor.getData(true);
  expect(data).toBe(map);
  const square = tensor.reshape([1, 2]);
  expect(square.dims).toEqual([1, 2]);
  tensor.dispose();
  expect(tensor.location).toBe("none");
  expect(() => tensor.data).toThrow(/disposed/);
});

test("what it throws on, we throw on", () => {
  const make = (...args: unknown[]): unknown => Reflect.construct(Tensor, args);
  expect(() => make("float32", new Float32Array(3), [2])).toThrow();
  expect(() => make("float32", new Int32Array(2), [2])).toThrow();
  expect(() => make("int4", [1, 2], [2])).toThrow();
  expect(() => make("float32", new Float32Array(2), [-2])).toThrow();
  expect(() => make("float32", new Float32Array(2), 2)).toThrow();
  expect(() => make("string", new Uint8Array(2), [2])).toThrow();
  expect(() => make([], [0])).toThrow();
  expect(() => make("float7", [1], [1])).toThrow();
});
