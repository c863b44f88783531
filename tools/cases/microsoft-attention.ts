import { of, type OpCase } from "./shared/case.js";

const domain = "com.microsoft";
/** Queries, keys and values are the input itself. */
const weights = of("float32", [1, 3], [1, 1, 1]);
const two = of("float32", [1, 2, 1], [0, 3]);
const attrs = { num_heads: 1 };

export const cases: readonly OpCase[] = [
  {
    op: "Attention",
    domain,
    opset: 1,
    shows: "a query of 0 looks at all keys alike, one of them is hidden by a length",
    attrs,
    inputs: [of("float32", [1, 2, 1], [0, 0]), weights, of("float32", [3], [0, 0, 8]), of("int32", [1], [1])],
    outputs: [of("float32", [1, 2, 1], [8, 8])],
  },
  {
    op: "Attention",
    domain,
    opset: 1,
    shows: "past and present, one direction",
    attrs: { ...attrs, unidirectional: 1 },
    inputs: [of("float32", [1, 1, 1], [0]), weights, undefined, undefined, of("float32", [2, 1, 1, 1, 1], [5, 4])],
    outputs: [of("float32", [1, 1, 1], [2]), of("float32", [2, 1, 1, 2, 1], [5, 0, 4, 0])],
  },
  {
    op: "Attention",
    domain,
    opset: 1,
    shows: "ends and starts: the second key alone",
    attrs,
    inputs: [two, weights, undefined, of("int32", [2], [2, 1])],
    outputs: [of("float32", [1, 2, 1], [3, 3])],
  },
  {
    op: "Attention",
    domain,
    opset: 1,
    shows: "columns that do not divide are refused",
    attrs: { num_heads: 2 },
    inputs: [two, weights],
    throws: /weights must have columns for queries, keys and values of 2 heads each, got 3/,
  },
  {
    op: "Attention",
    domain,
    opset: 1,
    shows: "rotary embedding is refused",
    attrs: { ...attrs, do_rotary: 1 },
    inputs: [two, weights],
    throws: /do_rotary is not supported/,
  },
  {
    op: "Attention",
    domain,
    opset: 1,
    shows: "a mask of another form is refused",
    attrs,
    inputs: [two, weights, undefined, of("int32", [3, 2], [1, 1, 1, 1, 1, 1])],
    throws: /mask_index must be .*, got int32\[3,2\]/,
  },
];
