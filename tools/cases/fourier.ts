import { of, type OpCase } from "./shared/case.js";

const signal = of("float32", [1, 4, 1], [1, 2, 3, 4]);
const spectrum = of("float32", [1, 3, 2], [10, 0, -2, 2, -2, 0]);

export const cases: readonly OpCase[] = [
  {
    op: "DFT",
    opset: 17,
    shows: "real numbers along the axis of an attribute",
    inputs: [signal],
    outputs: [of("float32", [1, 4, 2], [10, 0, -2, 2, -2, 0, -2, -2])],
  },
  {
    op: "DFT",
    opset: 20,
    shows: "half of the spectrum, of a signal that is padded",
    attrs: { onesided: 1 },
    inputs: [of("float64", [3, 1], [1, 2, 3]), of("int64", [], [4n]), of("int64", [], [0n])],
    outputs: [of("float64", [3, 2], [6, 0, -2, -2, 2, 0])],
  },
  {
    op: "DFT",
    opset: 20,
    shows: "and back from that half",
    attrs: { onesided: 1, inverse: 1 },
    inputs: [spectrum],
    outputs: [signal],
  },
  {
    op: "DFT",
    opset: 20,
    shows: "the inverse is divided by the length",
    attrs: { inverse: 1 },
    inputs: [of("float32", [2, 2], [3, 0, -1, 0])],
    outputs: [of("float32", [2, 2], [1, 0, 2, 0])],
  },
  {
    op: "DFT",
    opset: 20,
    shows: "the axis of the parts is refused",
    inputs: [signal, undefined, of("int64", [], [-1n])],
    throws: /axis must not be the last one, which holds real and imaginary parts, got -1/,
  },
  {
    op: "DFT",
    opset: 17,
    shows: "half of the spectrum of complex numbers is refused",
    attrs: { onesided: 1 },
    inputs: [spectrum],
    throws: /onesided takes real input, got \[1,3,2\]/,
  },
  {
    op: "STFT",
    opset: 17,
    shows: "frames that overlap, through a window",
    inputs: [signal, of("int64", [], [1n]), of("float32", [2], [1, 2])],
    outputs: [of("float32", [1, 3, 2, 2], [5, 0, -3, 0, 8, 0, -4, 0, 11, 0, -5, 0])],
  },
  {
    op: "STFT",
    opset: 17,
    shows: "a frame longer than the signal is refused",
    inputs: [signal, of("int64", [], [1n]), undefined, of("int64", [], [5n])],
    throws: /a frame of 5 does not fit into a signal of 4/,
  },
  {
    op: "STFT",
    opset: 17,
    shows: "a step of 0 is refused",
    inputs: [signal, of("int64", [], [0n]), undefined, of("int64", [], [2n])],
    throws: /frame_step must be at least 1, got 0/,
  },
];
