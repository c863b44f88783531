import { of, type OpCase } from "./shared/case.js";

const data = of("float32", [2, 3], [1, 2, 3, 4, 5, 6]);

export const cases: readonly OpCase[] = [
  {
    op: "Reshape",
    opset: 5,
    shows: "0 copies a dimension and -1 takes what is left",
    inputs: [of("string", [2, 3, 1], ["a", "b", "c", "d", "e", "f"]), of("int64", [3], [0, 1, -1])],
    outputs: [of("string", [2, 1, 3], ["a", "b", "c", "d", "e", "f"])],
  },
  {
    op: "Reshape",
    opset: 25,
    shows: "packed elements keep their order",
    inputs: [of("int4", [3, 1], [1, -2, 3]), of("int64", [1], [-1])],
    outputs: [of("int4", [3], [1, -2, 3])],
  },
  {
    op: "Reshape",
    opset: 14,
    shows: "allowzero takes 0 at its word",
    attrs: { allowzero: 1 },
    inputs: [of("float32", [0, 3], []), of("int64", [3], [4, 0, 2])],
    outputs: [of("float32", [4, 0, 2], [])],
  },
  {
    op: "Reshape",
    opset: 14,
    shows: "an empty shape makes a scalar",
    inputs: [of("float32", [1, 1], [7]), of("int64", [0], [])],
    outputs: [of("float32", [], [7])],
  },
  {
    op: "Reshape",
    opset: 14,
    shows: "a shape of another size is refused",
    inputs: [data, of("int64", [2], [4, 2])],
    throws: /data \[2,3\] cannot take the shape \[4,2\]: 6 elements against 8/,
  },
  {
    op: "Reshape",
    opset: 14,
    shows: "a rest that does not come out even is refused",
    inputs: [data, of("int64", [2], [4, -1])],
    throws: /cannot take the shape \[4,-1\]/,
  },
  {
    op: "Reshape",
    opset: 14,
    shows: "-1 twice is refused",
    inputs: [data, of("int64", [2], [-1, -1])],
    throws: /may have -1 once only/,
  },
  {
    op: "Reshape",
    opset: 14,
    shows: "0 beyond the rank of data is refused",
    inputs: [data, of("int64", [3], [2, 3, 0])],
    throws: /copies dimension 2 of data, which has the shape \[2,3\]/,
  },
  {
    op: "Reshape",
    opset: 14,
    shows: "0 and -1 together are refused with allowzero",
    attrs: { allowzero: 1 },
    inputs: [of("float32", [0, 3], []), of("int64", [2], [0, -1])],
    throws: /must not have both 0 and -1/,
  },
  {
    op: "Reshape",
    opset: 14,
    shows: "a dimension past 2^53 is refused",
    inputs: [data, of("int64", [1], [9007199254740993n])],
    throws: /shape\[0\] must be an index or a size, got 9007199254740993/,
  },
];
