import { of, type OpCase } from "./shared/case.js";

const line = of("float32", [3], [1, 2, 3]);
const matrix = of("int4", [2, 3], [1, 2, 3, 4, 5, 6]);
const ints = (...values: number[]) => of("int64", [values.length], values);

export const cases: readonly OpCase[] = [
  {
    op: "Pad",
    opset: 25,
    shows: "packed elements with a value of their own",
    inputs: [matrix, ints(0, 1, 1, 0), of("int4", [], [-8])],
    outputs: [of("int4", [3, 4], [-8, 1, 2, 3, -8, 4, 5, 6, -8, -8, -8, -8])],
  },
  {
    op: "Pad",
    opset: 13,
    shows: "strings are padded with the empty string, and cut",
    inputs: [of("string", [2, 2], ["a", "b", "c", "d"]), ints(-1, 0, 0, 1)],
    outputs: [of("string", [1, 3], ["c", "d", ""])],
  },
  {
    op: "Pad",
    opset: 9,
    shows: "pads and value as attributes",
    attrs: { pads: [1, 1], value: { float: 0.5 } },
    inputs: [line],
    outputs: [of("float32", [5], [0.5, 1, 2, 3, 0.5])],
  },
  {
    op: "Pad",
    opset: 18,
    shows: "only the named axes, one counted from the back",
    attrs: { mode: "edge" },
    inputs: [of("int32", [2, 2], [1, 2, 3, 4]), ints(1, 0), undefined, of("int32", [1], [-1])],
    outputs: [of("int32", [2, 3], [1, 1, 2, 3, 3, 4])],
  },
  {
    op: "Pad",
    opset: 18,
    shows: "reflection goes on beyond the far end",
    attrs: { mode: "reflect" },
    inputs: [line, ints(5, 3)],
    outputs: [of("float32", [11], [2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2])],
  },
  {
    op: "Pad",
    opset: 19,
    shows: "wrapping goes round more than once, in two dimensions",
    attrs: { mode: "wrap" },
    inputs: [of("int32", [1, 2], [1, 2]), ints(1, 3, 0, 1)],
    outputs: [of("int32", [2, 6], [2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1])],
  },
  {
    op: "Pad",
    opset: 18,
    shows: "what is taken off is not repeated",
    attrs: { mode: "edge" },
    inputs: [line, ints(-1, 2)],
    outputs: [of("float32", [4], [2, 3, 3, 3])],
  },
  {
    op: "Pad",
    opset: 13,
    shows: "taking off more than there is, with a value to fill the rest",
    inputs: [line, ints(-5, 4), of("float32", [1], [9])],
    outputs: [of("float32", [2], [9, 9])],
  },
  {
    op: "Pad",
    opset: 18,
    shows: "wrap comes with opset 19",
    attrs: { mode: "wrap" },
    inputs: [line, ints(1, 1)],
    throws: /attribute "mode" must be one of "constant", "reflect", "edge"/,
  },
  {
    op: "Pad",
    opset: 13,
    shows: "pads of the wrong length are refused",
    inputs: [line, ints(1)],
    throws: /pads needs a beginning and an end for each of 1 axes, got 1 entries/,
  },
  {
    op: "Pad",
    opset: 13,
    shows: "taking off more than there is is refused",
    inputs: [line, ints(-2, -2)],
    throws: /pads -2 and -2 take more off axis 0 of data \[3\] than there is/,
  },
  {
    op: "Pad",
    opset: 18,
    shows: "an empty axis has no edge",
    attrs: { mode: "edge" },
    inputs: [of("float32", [0], []), ints(1, 0)],
    throws: /mode "edge" has nothing to repeat along axis 0/,
  },
];
