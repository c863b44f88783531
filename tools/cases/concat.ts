import { of, type OpCase } from "./shared/case.js";

const left = of("string", [2, 1], ["a", "b"]);
const right = of("string", [2, 2], ["c", "d", "e", "f"]);

export const cases: readonly OpCase[] = [
  {
    op: "Concat",
    opset: 13,
    shows: "along an axis counted from the back",
    attrs: { axis: -1 },
    inputs: [left, right],
    outputs: [of("string", [2, 3], ["a", "c", "d", "b", "e", "f"])],
  },
  {
    op: "Concat",
    opset: 4,
    shows: "an empty part",
    attrs: { axis: 0 },
    inputs: [of("int64", [0], []), of("int64", [1], [9223372036854775807n])],
    outputs: [of("int64", [1], [9223372036854775807n])],
  },
  { op: "Concat", opset: 13, shows: "one part alone", attrs: { axis: 0 }, inputs: [left], outputs: [left] },
  {
    op: "Concat",
    opset: 13,
    shows: "another dimension that differs is refused",
    attrs: { axis: 0 },
    inputs: [left, right],
    throws: /inputs must agree in dimension 1, got 1 and 2/,
  },
  { op: "Concat", opset: 13, shows: "an axis is required", inputs: [left], throws: /attribute "axis" is required/ },
];
