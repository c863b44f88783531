import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

const float32 = (shape: readonly number[], values: readonly number[]): View => of("float32", shape, values);
const weight = float32([1, 1, 3], [1, 2, 3]);
const input = float32([1, 1, 3], [1, 2, 3]);
const silu = (x: number): number => x / (1 + Math.exp(-x));

export const cases: readonly OpCase[] = [
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "without a past there are zeros before the input",
    inputs: [input, weight],
    outputs: [float32([1, 1, 3], [3, 8, 14]), float32([1, 1, 2], [2, 3])],
  },
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "the past stands before the input",
    inputs: [input, weight, undefined, float32([1, 1, 2], [5, 6])],
    outputs: [float32([1, 1, 3], [20, 14, 14]), float32([1, 1, 2], [2, 3])],
  },
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "one value shifts the state by one",
    inputs: [float32([1, 1, 1], [1]), weight, undefined, float32([1, 1, 2], [5, 6])],
    outputs: [float32([1, 1, 1], [20]), float32([1, 1, 2], [6, 1])],
  },
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "an input shorter than the state keeps zeros in it",
    inputs: [float32([1, 1, 1], [4]), weight],
    outputs: [float32([1, 1, 1], [12]), float32([1, 1, 2], [0, 4])],
  },
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "no input leaves the state as it is",
    inputs: [float32([1, 1, 0], []), weight, undefined, float32([1, 1, 2], [5, 6])],
    outputs: [float32([1, 1, 0], []), float32([1, 1, 2], [5, 6])],
  },
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "each channel has its kernel and its bias, each sample its state",
    inputs: [
      float32([2, 2, 1], [1, 2, 3, 4]),
      float32([2, 1, 2], [1, 10, 100, 1000]),
      float32([2], [0.5, 0.25]),
      float32([2, 2, 1], [5, 6, 7, 8]),
    ],
    outputs: [float32([2, 2, 1], [15.5, 2600.25, 37.5, 4800.25]), float32([2, 2, 1], [1, 2, 3, 4])],
  },
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "a kernel of one has an empty state",
    inputs: [input, float32([1, 1, 1], [2]), undefined, float32([1, 1, 0], [])],
    outputs: [float32([1, 1, 3], [2, 4, 6]), float32([1, 1, 0], [])],
  },
  ...["silu", "swish"].map((activation): OpCase => ({
    op: "CausalConvWithState",
    opset: 27,
    shows: `${activation} after the sum`,
    attrs: { activation },
    inputs: [float32([1, 1, 2], [1, -2]), float32([1, 1, 1], [2]), float32([1], [1])],
    outputs: [float32([1, 1, 2], [silu(3), silu(-3)]), float32([1, 1, 0], [])],
    tolerance: 1e-6,
  })),
  ...(["float16", "bfloat16"] as const).map((type): OpCase => ({
    op: "CausalConvWithState",
    opset: 27,
    shows: `${type}, its state's bits untouched`,
    inputs: [of(type, [1, 1, 1], [1]), of(type, [1, 1, 2], [0.5, 2]), undefined, of(type, [1, 1, 1], [3])],
    outputs: [of(type, [1, 1, 1], [3.5]), of(type, [1, 1, 1], [1])],
  })),
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "a state that does not fit the kernel is refused",
    inputs: [input, weight, undefined, float32([1, 1, 3], [1, 2, 3])],
    throws: /past_state must hold one value less than the kernel, got 2 and 3/,
  },
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "a kernel for other channels is refused",
    inputs: [input, float32([2, 1, 1], [1, 2])],
    throws: /same number of channels, got 1 and 2/,
  },
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "a kernel across channels is refused",
    inputs: [input, float32([1, 2, 1], [1, 2])],
    throws: /weight must be \[channels,1,kernel\], got \[1,2,1\]/,
  },
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "an empty kernel is refused",
    inputs: [input, float32([1, 1, 0], [])],
    throws: /at least one value a channel/,
  },
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "a bias for other channels is refused",
    inputs: [input, weight, float32([2], [1, 2])],
    throws: /bias needs one entry a channel, got 1 and 2/,
  },
  {
    op: "CausalConvWithState",
    opset: 27,
    shows: "an unknown activation is refused",
    attrs: { activation: "relu" },
    inputs: [input, weight],
    throws: /attribute "activation" must be one of "none", "silu", "swish"/,
  },
  {
    op: "CausalConvWithState",
    domain: "com.microsoft",
    opset: 1,
    shows: "a window: what is carried after each of the last values",
    attrs: { state_window: 2 },
    inputs: [
      of("float32", [1, 1, 2], [3, 4]),
      of("float32", [1, 1, 3], [100, 10, 1]),
      undefined,
      of("float32", [2, 1, 1, 2], [8, 9, 1, 2]),
    ],
    outputs: [of("float32", [1, 1, 2], [123, 234]), of("float32", [2, 1, 1, 2], [2, 3, 3, 4])],
  },
  {
    op: "CausalConvWithState",
    domain: "com.microsoft",
    opset: 1,
    shows: "more than one axis",
    attrs: { ndim: 2 },
    inputs: [of("float32", [1, 1, 2], [3, 4]), of("float32", [1, 1, 1], [1])],
    throws: /ndim must be 1/,
  },
];
