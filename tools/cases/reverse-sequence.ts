import { of, type OpCase } from "./shared/case.js";

const matrix = of("string", [2, 3], ["a", "b", "c", "d", "e", "f"]);

export const cases: readonly OpCase[] = [
  {
    op: "ReverseSequence",
    opset: 10,
    shows: "time first",
    inputs: [matrix, of("int64", [3], [2, 1, 2])],
    outputs: [of("string", [2, 3], ["d", "b", "f", "a", "e", "c"])],
  },
  {
    op: "ReverseSequence",
    opset: 28,
    shows: "batch first",
    attrs: { batch_axis: 0, time_axis: 1 },
    inputs: [matrix, of("int64", [2], [3, 0])],
    outputs: [of("string", [2, 3], ["c", "b", "a", "d", "e", "f"])],
  },
  {
    op: "ReverseSequence",
    opset: 10,
    shows: "a length past the end is refused",
    inputs: [matrix, of("int64", [3], [2, 3, 0])],
    throws: /sequence_lens\[1\] must lie in \[0, 2\], got 3/,
  },
  {
    op: "ReverseSequence",
    opset: 10,
    shows: "lengths for another batch are refused",
    inputs: [matrix, of("int64", [2], [1, 1])],
    throws: /sequence_lens needs one entry a sequence of the batch, got 2 and 3/,
  },
  {
    op: "ReverseSequence",
    opset: 10,
    shows: "one axis for both is refused",
    attrs: { batch_axis: 0 },
    inputs: [matrix, of("int64", [2], [1, 1])],
    throws: /must be 0 and 1 or 1 and 0, got 0 and 0/,
  },
];
