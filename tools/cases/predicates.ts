import { of, type OpCase } from "./shared/case.js";

const edges = of("float32", [4], [-Infinity, NaN, 3, Infinity]);

export const cases: readonly OpCase[] = [
  { op: "IsInf", opset: 20, shows: "both signs", inputs: [edges], outputs: [of("bool", [4], [1, 0, 0, 1])] },
  {
    op: "IsInf",
    opset: 10,
    shows: "only the positive",
    attrs: { detect_negative: 0 },
    inputs: [edges],
    outputs: [of("bool", [4], [0, 0, 0, 1])],
  },
  {
    op: "IsInf",
    opset: 20,
    shows: "only the negative, in float8",
    attrs: { detect_positive: 0 },
    inputs: [of("float8e5m2", [3], [-Infinity, Infinity, NaN])],
    outputs: [of("bool", [3], [1, 0, 0])],
  },
  { op: "IsNaN", opset: 13, shows: "NaN alone", inputs: [edges], outputs: [of("bool", [4], [0, 1, 0, 0])] },
  {
    op: "IsNaN",
    opset: 20,
    shows: "integers are refused",
    inputs: [of("int32", [1], [1])],
    throws: /X must be float16, float32/,
  },
];
