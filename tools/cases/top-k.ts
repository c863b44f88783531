import { of, type OpCase } from "./shared/case.js";

const matrix = of("float32", [2, 3], [1, 3, 2, 5, 5, NaN]);
const k = (value: number) => of("int64", [1], [value]);

export const cases: readonly OpCase[] = [
  {
    op: "TopK",
    opset: 11,
    shows: "the largest; equal ones in order, NaN above all",
    inputs: [matrix, k(2)],
    outputs: [of("float32", [2, 2], [3, 2, NaN, 5]), of("int64", [2, 2], [1, 2, 2, 0])],
  },
  {
    op: "TopK",
    opset: 24,
    shows: "the smallest along the first axis, 64 bits apart",
    attrs: { axis: 0, largest: 0 },
    inputs: [of("uint64", [2, 2], [18446744073709551615n, 1, 18446744073709551614n, 2]), k(1)],
    outputs: [of("uint64", [1, 2], [18446744073709551614n, 1]), of("int64", [1, 2], [1, 0])],
  },
  {
    op: "TopK",
    opset: 9,
    shows: "k as an attribute",
    attrs: { k: 1 },
    inputs: [of("float16", [3], [1, 4, 4])],
    outputs: [of("float16", [1], [4]), of("int64", [1], [1])],
  },
  {
    op: "TopK",
    opset: 11,
    shows: "only where they are",
    inputs: [matrix, k(1)],
    outputs: [undefined, of("int64", [2, 1], [1, 2])],
  },
  {
    op: "TopK",
    opset: 11,
    shows: "more than there are is refused",
    inputs: [matrix, k(4)],
    throws: /K must not exceed the 3 elements of axis 1, got 4/,
  },
  {
    op: "TopK",
    opset: 11,
    shows: "a negative K is refused",
    inputs: [matrix, k(-1)],
    throws: /K must not be negative, got -1/,
  },
];
