import { of, type OpCase } from "./shared/case.js";

const cube = of("float32", [1, 2, 2], [1, 4, 3, 4]);

export const cases: readonly OpCase[] = [
  {
    op: "Hardmax",
    opset: 13,
    shows: "along the last axis",
    inputs: [cube],
    outputs: [of("float32", [1, 2, 2], [0, 1, 0, 1])],
  },
  {
    op: "Hardmax",
    opset: 13,
    shows: "along another, the first of equals",
    attrs: { axis: 1 },
    inputs: [cube],
    outputs: [of("float32", [1, 2, 2], [0, 1, 1, 0])],
  },
  {
    op: "Hardmax",
    opset: 11,
    shows: "before opset 13 over all from the axis on",
    inputs: [cube],
    outputs: [of("float32", [1, 2, 2], [0, 1, 0, 0])],
  },
  {
    op: "Hardmax",
    opset: 13,
    shows: "an axis past the rank is refused",
    attrs: { axis: 3 },
    inputs: [cube],
    throws: /axis must lie in \[-3, 2\]/,
  },
];
