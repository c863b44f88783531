import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "Mod",
    opset: 13,
    shows: "integers take the sign of the divisor",
    inputs: [of("int32", [5], [-4, 7, 5, 4, -7]), of("int32", [5], [2, -3, 8, -2, 3])],
    outputs: [of("int32", [5], [0, -2, 5, 0, 2])],
  },
  {
    op: "Mod",
    opset: 10,
    shows: "with fmod they take the sign of the dividend",
    attrs: { fmod: 1 },
    inputs: [of("int64", [4], [-4n, 7n, -7n, 5n]), of("int64", [4], [3n, -3n, 3n, 0n])],
    outputs: [of("int64", [4], [-1n, 1n, -1n, 0n])],
  },
  {
    op: "Mod",
    opset: 13,
    shows: "floats with fmod",
    attrs: { fmod: 1 },
    inputs: [of("float32", [4], [-4.5, 5, Infinity, 1]), of("float32", [4], [2, -3, 2, Infinity])],
    outputs: [of("float32", [4], [-0.5, 2, NaN, 1])],
  },
  {
    op: "Mod",
    opset: 28,
    shows: "floats by floor",
    inputs: [of("float32", [5], [-4.5, 5, 1, -1, 1]), of("float32", [5], [2, -3, -Infinity, Infinity, 0])],
    outputs: [of("float32", [5], [1.5, -1, -Infinity, Infinity, NaN])],
  },
  {
    op: "Mod",
    opset: 13,
    shows: "floats without fmod are refused before opset 28",
    inputs: [of("float32", [1], [1]), of("float32", [1], [1])],
    throws: /fmod must be 1 for floats before opset 28/,
  },
];
