import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

const scatter = (given: Omit<OpCase, "op" | "domain" | "opset">): OpCase => ({
  op: "QuantizedScatterPaKvCache",
  domain: "insitu",
  opset: 1,
  ...given,
});

const floats = (shape: readonly number[], values: readonly number[]): View => of("float32", shape, values);
const int8 = (shape: readonly number[], values: readonly number[]): View => of("int8", shape, values);
const zeros = (type: "int8" | "float8e4m3fn" | "float8e5m2" | "float32", ...shape: number[]): View =>
  of(type, shape, new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(0));

const key = floats([2, 1, 2], [127, -63.5, 0, 0]);
const value = floats([2, 1, 2], [2, 254, 1, 2]);

export const cases: readonly OpCase[] = [
  scatter({
    shows: "bytes and scales at their slots; halves go to the even one, zeros have the scale 0",
    inputs: [
      key,
      zeros("int8", 2, 1, 1, 2),
      zeros("float32", 2, 1, 1),
      of("int64", [2], [1, 0]),
      value,
      zeros("int8", 2, 1, 1, 2),
      zeros("float32", 2, 1, 1),
    ],
    outputs: [
      int8([2, 1, 1, 2], [0, 0, 127, -64]),
      floats([2, 1, 1], [0, 1]),
      int8([2, 1, 1, 2], [64, 127, 1, 127]),
      floats([2, 1, 1], [2 / 127, 2]),
    ],
  }),
  scatter({
    shows: "a negative slot is skipped",
    inputs: [
      key,
      int8([1, 2, 1, 2], [1, 2, 3, 4]),
      floats([1, 2, 1], [5, 6]),
      of("int32", [2], [-1, 1]),
      value,
      int8([1, 2, 1, 2], [1, 2, 3, 4]),
      floats([1, 2, 1], [5, 6]),
    ],
    outputs: [
      int8([1, 2, 1, 2], [1, 2, 0, 0]),
      floats([1, 2, 1], [5, 0]),
      int8([1, 2, 1, 2], [1, 2, 64, 127]),
      floats([1, 2, 1], [5, 2 / 127]),
    ],
  }),
  scatter({
    shows: "float8e4m3fn and float8e5m2, NHSD",
    attrs: { cache_mode: "NHSD" },
    inputs: [
      of("float16", [1, 2, 1], [448, -7]),
      zeros("float8e4m3fn", 1, 2, 2, 1),
      zeros("float32", 1, 2, 2),
      of("int32", [1], [1]),
      of("float16", [1, 2, 1], [57344, 3]),
      zeros("float8e5m2", 1, 2, 2, 1),
      zeros("float32", 1, 2, 2),
    ],
    outputs: [
      of("float8e4m3fn", [1, 2, 2, 1], [0, 448, 0, -448]),
      floats([1, 2, 2], [0, 0, 1, 0.015625]),
      of("float8e5m2", [1, 2, 2, 1], [0, 57344, 0, 57344]),
      floats([1, 2, 2], [0, 0, 1, Math.fround(3 / 57344)]),
    ],
  }),
  scatter({
    shows: "a slot past the cache is refused",
    inputs: [
      key,
      zeros("int8", 1, 2, 1, 2),
      zeros("float32", 1, 2, 1),
      of("int64", [2], [0, 2]),
      value,
      zeros("int8", 1, 2, 1, 2),
      zeros("float32", 1, 2, 1),
    ],
    throws: /slot_mapping\[1\] must be below num_blocks \* block_size = 2, got 2/,
  }),
  scatter({
    shows: "scales of another shape are refused",
    inputs: [
      key,
      zeros("int8", 1, 2, 1, 2),
      zeros("float32", 1, 1, 1),
      of("int64", [2], [0, 1]),
      value,
      zeros("int8", 1, 2, 1, 2),
      zeros("float32", 1, 2, 1),
    ],
    throws: /key_scale float32\[1,1,1\] must be \[num_blocks, block_size, num_head\] in dimension 1, got 1 and 2/,
  }),
  scatter({
    shows: "caches of floats are refused",
    inputs: [
      key,
      zeros("float32", 1, 2, 1, 2),
      zeros("float32", 1, 2, 1),
      of("int64", [2], [0, 1]),
      value,
      zeros("int8", 1, 2, 1, 2),
      zeros("float32", 1, 2, 1),
    ],
    throws: /key_cache must be int8, float8e4m3fn, float8e5m2, got tensor\(float\)/,
  }),
];
