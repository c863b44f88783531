import { of, type OpCase } from "./shared/case.js";

const cube = of("int32", [2, 1, 3], [1, 2, 3, 4, 5, 6]);

export const cases: readonly OpCase[] = [
  {
    op: "Flatten",
    opset: 25,
    shows: "by default the first dimension stays",
    inputs: [cube],
    outputs: [cube.reshape([2, 3])],
  },
  {
    op: "Flatten",
    opset: 9,
    shows: "axis 0 makes one row",
    attrs: { axis: 0 },
    inputs: [cube],
    outputs: [cube.reshape([1, 6])],
  },
  {
    op: "Flatten",
    opset: 11,
    shows: "the rank itself is an axis",
    attrs: { axis: 3 },
    inputs: [cube],
    outputs: [cube.reshape([6, 1])],
  },
  {
    op: "Flatten",
    opset: 13,
    shows: "an axis past the rank is refused",
    attrs: { axis: 4 },
    inputs: [cube],
    throws: /axis must lie in \[-3, 3\] for rank 3, got 4/,
  },
];
