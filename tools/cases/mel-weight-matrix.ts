import { of, type OpCase } from "./shared/case.js";

const whole = (value: number) => of("int64", [], [value]);
const hertz = (value: number) => of("float32", [], [value]);

export const cases: readonly OpCase[] = [
  {
    op: "MelWeightMatrix",
    opset: 17,
    shows: "triangles of two bins",
    inputs: [whole(2), whole(8), whole(800), hertz(0), hertz(400)],
    outputs: [of("float32", [5, 2], [1, 0, 0, 1, 0, 0.5, 0, 0, 0, 0])],
  },
  {
    op: "MelWeightMatrix",
    opset: 17,
    shows: "no bins are refused",
    inputs: [whole(0), whole(8), whole(800), hertz(0), hertz(400)],
    throws: /num_mel_bins must be at least 1, got 0/,
  },
];
