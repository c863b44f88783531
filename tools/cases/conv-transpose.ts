import { of, type OpCase } from "./shared/case.js";

const line = of("float32", [1, 1, 2], [1, 2]);
const pair = of("float32", [1, 1, 2], [1, 10]);

export const cases: readonly OpCase[] = [
  {
    op: "ConvTranspose",
    opset: 11,
    shows: "kernels overlap where the stride is small",
    inputs: [line, pair],
    outputs: [of("float32", [1, 1, 3], [1, 12, 20])],
  },
  {
    op: "ConvTranspose",
    opset: 22,
    shows: "stride, output padding and a cut",
    attrs: { strides: [2], output_padding: [1], pads: [1, 0] },
    inputs: [line, pair, of("float32", [1], [100])],
    outputs: [of("float32", [1, 1, 4], [110, 102, 120, 100])],
  },
  {
    op: "ConvTranspose",
    opset: 22,
    shows: "an output shape decides the cut, more of it in front",
    attrs: { output_shape: [2] },
    inputs: [line, pair],
    outputs: [of("float32", [1, 1, 2], [12, 20])],
  },
  {
    op: "ConvTranspose",
    opset: 22,
    shows: "a cut beyond what there is is refused",
    attrs: { pads: [2, 2] },
    inputs: [line, pair],
    throws: /pads cut off more than there is/,
  },
];
