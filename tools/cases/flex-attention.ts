import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

// The subgraphs have their own tests: a case carries none.
const domain = "ai.onnx.preview";
const float32 = (shape: readonly number[], values: readonly number[]): View => of("float32", shape, values);
const row = float32([1, 1, 1, 1], [1]); // [batch, heads, length, size]

export const cases: readonly OpCase[] = [
  {
    op: "FlexAttention",
    domain,
    opset: 1,
    shows: "scale, softmax and the weighed sum",
    attrs: { scale: { float: 1 } },
    inputs: [row, float32([1, 1, 2, 1], [0, Math.log(3)]), float32([1, 1, 2, 2], [4, 0, 8, 4])],
    outputs: [float32([1, 1, 1, 2], [7, 3])],
    tolerance: 1e-6,
  },
  {
    op: "FlexAttention",
    domain,
    opset: 1,
    shows: "query heads share key heads in groups that follow each other",
    inputs: [float32([1, 4, 1, 1], [0, 0, 0, 0]), float32([1, 2, 1, 1], [0, 0]), float32([1, 2, 1, 1], [5, 7])],
    outputs: [float32([1, 4, 1, 1], [5, 5, 7, 7])],
  },
  ...(["float16", "bfloat16", "float64"] as const).map((type): OpCase => ({
    op: "FlexAttention",
    domain,
    opset: 1,
    shows: `${type}`,
    inputs: [of(type, [1, 1, 1, 1], [0]), of(type, [1, 1, 2, 1], [1, 2]), of(type, [1, 1, 2, 1], [0.5, 1.5])],
    outputs: [of(type, [1, 1, 1, 1], [1])],
  })),
  {
    op: "FlexAttention",
    domain,
    opset: 1,
    shows: "softmax in a narrower type: 2048 and 2049 are one in float16",
    attrs: { scale: { float: 1 }, softmax_precision: 10 },
    inputs: [row, float32([1, 1, 2, 1], [2048, 2049]), float32([1, 1, 2, 1], [4, 6])],
    outputs: [float32([1, 1, 1, 1], [5])],
  },
  {
    op: "FlexAttention",
    domain,
    opset: 1,
    shows: "packed operands are refused",
    inputs: [float32([1, 1, 1], [1]), row, row],
    throws: /Q must have 4 dimensions, got float32\[1,1,1\]/,
  },
  {
    op: "FlexAttention",
    domain,
    opset: 1,
    shows: "heads that share unevenly are refused",
    inputs: [float32([1, 3, 1, 1], [1, 2, 3]), float32([1, 2, 1, 1], [1, 2]), float32([1, 2, 1, 1], [1, 2])],
    throws: /must be a multiple of that of K, got 3 and 2/,
  },
  {
    op: "FlexAttention",
    domain,
    opset: 1,
    shows: "keys and values of different lengths are refused",
    inputs: [row, row, float32([1, 1, 2, 1], [1, 2])],
    throws: /K and V must have the same length, got 1 and 2/,
  },
  {
    op: "FlexAttention",
    domain,
    opset: 1,
    shows: "softmax in integers is refused",
    attrs: { softmax_precision: 7 },
    inputs: [row, row, row],
    throws: /softmax_precision must be .*, got int64/,
  },
];
