import { of, type OpCase } from "./shared/case.js";
import { type ElementType, traitsOf } from "#insitu/tensor/element-type.js";
import type { View } from "#insitu/tensor/view.js";
import { anyType } from "#insitu/ops/shared/rules/types.js";

const past = of("float32", [1, 4, 2], [0, 0, 0, 0, 0, 0, 0, 0]);
const row = of("float32", [1, 1, 2], [7, 8]);
const int32 = (shape: readonly number[], values: readonly number[]): View => of("int32", shape, values);

/** Elements of a type, one a number; they differ where the type has that many values. */
function numbered(type: ElementType, shape: readonly number[], numbers: readonly number[]): View {
  const { kind, bits } = traitsOf(type);
  if (type === "string")
    return of(
      type,
      shape,
      numbers.map((n) => `row ${n}`),
    );
  if (kind === "complex")
    return of(
      type,
      shape,
      numbers.flatMap((n) => [n, -n]),
    );
  if (type === "float8e8m0")
    return of(
      type,
      shape,
      numbers.map((n) => 2 ** n),
    );
  const limit = kind === "bool" ? 2 : bits < 8 ? 4 : 16;
  return of(
    type,
    shape,
    numbers.map((n) => n % limit),
  );
}

export const cases: readonly OpCase[] = [
  {
    op: "TensorScatter",
    opset: 24,
    shows: "one row is written at its index",
    inputs: [past, row, of("int64", [1], [2])],
    outputs: [of("float32", [1, 4, 2], [0, 0, 0, 0, 7, 8, 0, 0])],
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "without indices every sample is written at its start",
    inputs: [int32([2, 2, 1], [1, 2, 3, 4]), int32([2, 1, 1], [5, 6])],
    outputs: [int32([2, 2, 1], [5, 2, 6, 4])],
  },
  ...anyType
    .filter((type) => type !== "int2" && type !== "uint2")
    .map((type): OpCase => ({
      op: "TensorScatter",
      opset: 24,
      shows: `${type}: two rows at each sample's own index`,
      inputs: [
        numbered(type, [2, 3, 1], [0, 1, 2, 3, 4, 5]),
        numbered(type, [2, 2, 1], [6, 7, 9, 10]),
        of("int64", [2], [1, 0]),
      ],
      outputs: [numbered(type, [2, 3, 1], [0, 6, 7, 9, 10, 5])],
    })),
  {
    op: "TensorScatter",
    opset: 24,
    shows: "circular mode wraps the sequence index only",
    attrs: { mode: "circular", axis: 1 },
    inputs: [of("int8", [2, 3], [1, 2, 3, 4, 5, 6]), of("int8", [2, 2], [7, 8, 9, 10]), of("int64", [2], [2, 4])],
    outputs: [of("int8", [2, 3], [8, 2, 7, 4, 9, 10])],
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "circular mode leaves indices before the axis alone, also where they exceed the capacity",
    attrs: { mode: "circular" },
    inputs: [int32([1, 3, 2, 1], [1, 2, 3, 4, 5, 6]), int32([1, 3, 1, 1], [7, 8, 9]), of("int64", [1], [3])],
    outputs: [int32([1, 3, 2, 1], [1, 7, 3, 8, 5, 9])],
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "circular mode writes the whole capacity around the end",
    attrs: { mode: "circular", axis: 1 },
    inputs: [int32([1, 4], [1, 2, 3, 4]), int32([1, 4], [5, 6, 7, 8]), of("int64", [1], [1_000_003])],
    outputs: [int32([1, 4], [6, 7, 8, 5])],
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "an axis in the middle of many dimensions",
    attrs: { axis: 2 },
    inputs: [
      int32([1, 2, 2, 1, 2], [1, 2, 3, 4, 5, 6, 7, 8]),
      int32([1, 2, 1, 1, 2], [10, 20, 30, 40]),
      of("int64", [1], [1]),
    ],
    outputs: [int32([1, 2, 2, 1, 2], [1, 2, 10, 20, 5, 6, 30, 40])],
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "packed 4-bit rows that start in the middle of a byte",
    inputs: [
      of("int4", [1, 3, 3], [1, 2, 3, 4, 5, 6, 7, -8, -1]),
      of("int4", [1, 1, 3], [-2, -3, -4]),
      of("int64", [1], [1]),
    ],
    outputs: [of("int4", [1, 3, 3], [1, 2, 3, -2, -3, -4, 7, -8, -1])],
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "no rows change nothing, also at the end of the cache",
    inputs: [int32([1, 2, 1], [1, 2]), int32([1, 0, 1], []), of("int64", [1], [2])],
    outputs: [int32([1, 2, 1], [1, 2])],
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "an empty batch",
    inputs: [int32([0, 2, 1], []), int32([0, 1, 1], []), of("int64", [0], [])],
    outputs: [int32([0, 2, 1], [])],
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "a linear write past the capacity is refused",
    inputs: [past, row, of("int64", [1], [4])],
    throws: /write_indices\[0\] \+ length <= capacity, got 4 \+ 1 > 4/,
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "a negative index is refused",
    inputs: [past, row, of("int64", [1], [-1])],
    throws: /write_indices\[0\] must not be negative, got -1/,
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "more rows than the capacity are refused, in circular mode too",
    attrs: { mode: "circular" },
    inputs: [int32([1, 2, 1], [1, 2]), int32([1, 3, 1], [1, 2, 3])],
    throws: /update has 3 rows along axis 1, the cache holds 2/,
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "axis 0 is refused",
    attrs: { axis: 0 },
    inputs: [past, row],
    throws: /axis must not be 0/,
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "axis 0 by another name is refused",
    attrs: { axis: -3 },
    inputs: [past, row],
    throws: /axis must not be 0/,
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "an update of another shape is refused",
    inputs: [past, of("float32", [1, 1, 3], [7, 8, 9])],
    throws: /must agree in dimension 2, got 2 and 3/,
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "an update of another rank is refused",
    inputs: [past, of("float32", [1, 2], [7, 8])],
    throws: /must have the same rank/,
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "an update of another type is refused",
    inputs: [past, of("float64", [1, 1, 2], [7, 8])],
    throws: /update must have the type of the other operands of T/,
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "indices for another batch are refused",
    inputs: [past, row, of("int64", [2], [0, 0])],
    throws: /one entry a sample of the batch, got 2 and 1/,
  },
  {
    op: "TensorScatter",
    opset: 24,
    shows: "an unknown mode is refused",
    attrs: { mode: "ring" },
    inputs: [past, row],
    throws: /attribute "mode" must be one of "linear", "circular"/,
  },
];
