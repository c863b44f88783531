import { of, type OpCase } from "./shared/case.js";

const line = of("float32", [1, 1, 5], [1, 2, 3, 4, 5]);
const pair = of("float32", [1, 1, 2], [1, 10]);

export const cases: readonly OpCase[] = [
  {
    op: "Conv",
    opset: 11,
    shows: "one spatial axis with stride, dilation and uneven padding",
    attrs: { strides: [2], dilations: [2], pads: [1, 0] },
    inputs: [line, pair],
    outputs: [of("float32", [1, 1, 2], [20, 42])],
  },
  {
    op: "Conv",
    opset: 22,
    shows: "SAME_LOWER puts the odd padding in front",
    attrs: { auto_pad: "SAME_LOWER" },
    inputs: [line, pair],
    outputs: [of("float32", [1, 1, 5], [10, 21, 32, 43, 54])],
  },
  {
    op: "Conv",
    opset: 11,
    shows: "groups and a bias, two spatial axes",
    attrs: { group: 2, kernel_shape: [1, 2] },
    inputs: [
      of("float32", [1, 2, 1, 3], [1, 2, 3, 4, 5, 6]),
      of("float32", [2, 1, 1, 2], [1, 1, 1, -1]),
      of("float32", [2], [0, 100]),
    ],
    outputs: [of("float32", [1, 2, 1, 2], [3, 5, 99, 99])],
  },
  {
    op: "Conv",
    opset: 11,
    shows: "a window that does not fit is refused",
    inputs: [of("float32", [1, 1, 1], [1]), pair],
    throws: /a window that reaches over 2 does not fit into 1 along spatial axis 0/,
  },
  {
    op: "Conv",
    opset: 11,
    shows: "channels that do not fit are refused",
    attrs: { group: 2 },
    inputs: [line, pair],
    throws: /X must have the channels of W times group 2, got 1 and 2/,
  },
  {
    op: "Conv",
    opset: 11,
    shows: "a stride of 0 is refused",
    attrs: { strides: [0] },
    inputs: [line, pair],
    throws: /strides must be at least 1, got \[0\]/,
  },
  {
    op: "FusedConv",
    domain: "com.microsoft",
    opset: 1,
    shows: "a sum and an activation behind the convolution",
    attrs: { activation: "Relu" },
    inputs: [line, pair, of("float32", [1], [-30]), of("float32", [1, 1, 4], [0, 1, 2, 3])],
    outputs: [of("float32", [1, 1, 4], [0, 3, 15, 27])],
  },
  {
    op: "FusedConv",
    domain: "com.microsoft",
    opset: 1,
    shows: "an activation with parameters",
    attrs: { activation: "Clip", activation_params: { floats: [25, 40] } },
    inputs: [line, pair],
    outputs: [of("float32", [1, 1, 4], [25, 32, 40, 40])],
  },
  {
    op: "FusedConv",
    domain: "com.microsoft",
    opset: 1,
    shows: "an unknown activation is refused",
    attrs: { activation: "Mish" },
    inputs: [line, pair],
    throws: /activation must be one of Relu, .*, got "Mish"/,
  },
];
