import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "Clip",
    opset: 13,
    shows: "both bounds; NaN stays",
    inputs: [of("float32", [4], [-3, 0.5, 7, NaN]), of("float32", [], [-1]), of("float32", [], [2])],
    outputs: [of("float32", [4], [-1, 0.5, 2, NaN])],
  },
  {
    op: "Clip",
    opset: 13,
    shows: "a minimum above the maximum gives the maximum",
    inputs: [of("int8", [3], [-3, 0, 7]), of("int8", [], [5]), of("int8", [], [2])],
    outputs: [of("int8", [3], [2, 2, 2])],
  },
  {
    op: "Clip",
    opset: 12,
    shows: "64-bit bounds are exact",
    inputs: [of("uint64", [2], [2n ** 63n, 2n ** 63n + 2n]), undefined, of("uint64", [1], [2n ** 63n + 1n])],
    outputs: [of("uint64", [2], [2n ** 63n, 2n ** 63n + 1n])],
  },
  {
    op: "Clip",
    opset: 13,
    shows: "without bounds nothing is limited",
    inputs: [of("float16", [2], [-Infinity, 65504])],
    outputs: [of("float16", [2], [-Infinity, 65504])],
  },
  {
    op: "Clip",
    opset: 6,
    shows: "bounds were attributes",
    attrs: { min: { float: -1 }, max: { float: 1 } },
    inputs: [of("float32", [3], [-3, 0.5, 3])],
    outputs: [of("float32", [3], [-1, 0.5, 1])],
  },
  {
    op: "Clip",
    opset: 13,
    shows: "a bound with many elements is refused",
    inputs: [of("float32", [1], [1]), of("float32", [2], [0, 0])],
    throws: /min must be a scalar, got float32\[2\]/,
  },
];
