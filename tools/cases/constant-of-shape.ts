import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "ConstantOfShape",
    opset: 9,
    shows: "float zeros by default",
    inputs: [of("int64", [2], [2, 1])],
    outputs: [of("float32", [2, 1], [0, 0])],
  },
  {
    op: "ConstantOfShape",
    opset: 25,
    shows: "packed elements",
    attrs: { value: of("uint4", [1], [9]) },
    inputs: [of("int64", [1], [5])],
    outputs: [of("uint4", [5], [9, 9, 9, 9, 9])],
  },
  {
    op: "ConstantOfShape",
    opset: 9,
    shows: "an empty shape makes a scalar, 64 bits stay exact",
    attrs: { value: of("int64", [1], [9223372036854775807n]) },
    inputs: [of("int64", [0], [])],
    outputs: [of("int64", [], [9223372036854775807n])],
  },
  {
    op: "ConstantOfShape",
    opset: 9,
    shows: "a dimension of 0",
    inputs: [of("int64", [2], [0, 3])],
    outputs: [of("float32", [0, 3], [])],
  },
  {
    op: "ConstantOfShape",
    opset: 9,
    shows: "a negative dimension is refused",
    inputs: [of("int64", [2], [2, -1])],
    throws: /input \[2,-1\] must not have -1/,
  },
  {
    op: "ConstantOfShape",
    opset: 9,
    shows: "a value of two elements is refused",
    attrs: { value: of("int64", [2], [1, 2]) },
    inputs: [of("int64", [0], [])],
    throws: /value must hold exactly one element, got int64\[2\]/,
  },
  {
    op: "ConstantOfShape",
    opset: 9,
    shows: "more than memory holds is refused",
    inputs: [of("int64", [2], [1048576, 1048576])],
    throws: /cannot be allocated|bytes are needed/,
  },
];
