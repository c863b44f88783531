import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

const float32 = (shape: readonly number[], values: readonly number[]): View => of("float32", shape, values);
const one = float32([1, 1, 1], [1]);

export const cases: readonly OpCase[] = [
  {
    op: "RNN",
    opset: 22,
    shows: "backwards, a sample that ends before the input does",
    attrs: { hidden_size: 1, direction: "reverse", activations: ["Affine"] },
    inputs: [float32([3, 1, 1], [1, 2, 3]), one, one, undefined, of("int32", [1], [2])],
    outputs: [float32([3, 1, 1, 1], [3, 2, 0]), float32([1, 1, 1], [3])],
  },
  {
    op: "GRU",
    opset: 14,
    shows: "a batch first",
    attrs: { hidden_size: 1, layout: 1, activations: ["Affine", "Affine"] },
    inputs: [float32([1, 1, 1], [2]), float32([1, 3, 1], [0.25, 0, 1]), float32([1, 3, 1], [0, 0, 0])],
    outputs: [float32([1, 1, 1, 1], [1]), float32([1, 1, 1], [1])],
  },
  {
    op: "LSTM",
    opset: 7,
    shows: "the cell alone is asked for",
    attrs: { hidden_size: 1, activations: ["Affine", "Affine", "Affine"], input_forget: 1 },
    inputs: [
      one,
      float32([1, 4, 1], [0.5, 1, 9, 4]),
      float32([1, 4, 1], [0, 0, 0, 0]),
      undefined,
      undefined,
      undefined,
      one,
    ],
    outputs: [undefined, undefined, float32([1, 1, 1], [2.5])],
  },
  {
    op: "LSTM",
    opset: 22,
    shows: "an activation that nobody knows",
    attrs: { hidden_size: 1, activations: ["Sigmoid", "Tanh", "Swish"] },
    inputs: [one, float32([1, 4, 1], [1, 1, 1, 1]), float32([1, 4, 1], [1, 1, 1, 1])],
    throws: /"Swish" is no activation that ONNX names/,
  },
  {
    op: "LSTM",
    opset: 22,
    shows: "a sample longer than the input",
    attrs: { hidden_size: 1 },
    inputs: [one, float32([1, 4, 1], [1, 1, 1, 1]), float32([1, 4, 1], [1, 1, 1, 1]), undefined, of("int32", [1], [2])],
    throws: /sequence_lens\[0\] must lie in \[0, 1\], got 2/,
  },
];
