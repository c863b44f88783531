import { of, type OpCase } from "./shared/case.js";

const line = of("int32", [5], [1, 2, 3, 4, 5]);
const matrix = of("string", [2, 2], ["a", "b", "c", "d"]);

export const cases: readonly OpCase[] = [
  {
    op: "Split",
    opset: 18,
    shows: "the last part is shorter",
    attrs: { num_outputs: 2 },
    inputs: [line],
    outputs: [of("int32", [3], [1, 2, 3]), of("int32", [2], [4, 5])],
  },
  {
    op: "Split",
    opset: 18,
    shows: "a part in the middle that is not asked for is skipped",
    inputs: [line, of("int64", [3], [1, 3, 1])],
    outputs: [of("int32", [1], [1]), undefined, of("int32", [1], [5])],
  },
  {
    op: "Split",
    opset: 13,
    shows: "equal parts, one an output, along an axis counted from the back",
    attrs: { axis: -1 },
    inputs: [matrix],
    outputs: [of("string", [2, 1], ["a", "c"]), of("string", [2, 1], ["b", "d"])],
  },
  {
    op: "Split",
    opset: 11,
    shows: "lengths as an attribute, one of them 0",
    attrs: { split: [0, 2] },
    inputs: [matrix],
    outputs: [of("string", [0, 2], []), matrix],
  },
  {
    op: "Split",
    opset: 13,
    shows: "lengths that do not add up are refused",
    inputs: [line, of("int64", [2], [2, 2])],
    throws: /split \[2,2\] must add up to the length of the axis, 5/,
  },
  {
    op: "Split",
    opset: 18,
    shows: "lengths and a number of parts together are refused",
    attrs: { num_outputs: 1 },
    inputs: [line, of("int64", [1], [5])],
    throws: /takes either split or num_outputs, got both/,
  },
  {
    op: "Split",
    opset: 18,
    shows: "neither lengths nor a number of parts is refused",
    inputs: [line],
    throws: /needs either split or num_outputs/,
  },
  {
    op: "Split",
    opset: 18,
    shows: "more parts than the axis gives is refused",
    attrs: { num_outputs: 4 },
    inputs: [line],
    throws: /an axis of 5 cannot be split into 4 parts of 2/,
  },
];
