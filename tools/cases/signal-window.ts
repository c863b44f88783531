import { of, type OpCase } from "./shared/case.js";

const size = of("int64", [], [4n]);

export const cases: readonly OpCase[] = [
  {
    op: "HannWindow",
    opset: 17,
    shows: "the next period begins behind the last element",
    inputs: [size],
    outputs: [of("float32", [4], [0, 0.5, 1, 0.5])],
  },
  {
    op: "HannWindow",
    opset: 17,
    shows: "or the last element ends it",
    attrs: { periodic: 0, output_datatype: 11 },
    inputs: [of("int32", [], [3])],
    outputs: [of("float64", [3], [0, 1, 0])],
  },
  {
    op: "HammingWindow",
    opset: 17,
    shows: "a small rest at the ends",
    inputs: [size],
    outputs: [of("float32", [4], [0.08695652, 0.54347826, 1, 0.54347826])],
  },
  {
    op: "BlackmanWindow",
    opset: 17,
    shows: "two cosines",
    inputs: [size],
    outputs: [of("float32", [4], [0, 0.34, 1, 0.34])],
  },
  {
    op: "HannWindow",
    opset: 17,
    shows: "a negative size is refused",
    inputs: [of("int64", [], [-1n])],
    throws: /size must not be negative, got -1/,
  },
];
