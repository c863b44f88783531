import { of, type OpCase } from "./shared/case.js";

const x = of("float32", [2, 2], [1, 3, 10, 10]);
const ones = of("float32", [2], [1, 1]);

export const cases: readonly OpCase[] = [
  {
    op: "LayerNormalization",
    opset: 17,
    shows: "all three outputs",
    attrs: { epsilon: { float: 0 } },
    inputs: [of("float32", [2, 2], [1, 3, 2, -2]), of("float32", [2], [1, 2]), of("float32", [2], [0, 1])],
    outputs: [of("float32", [2, 2], [-1, 3, 1, -1]), of("float32", [2, 1], [2, 0]), of("float32", [2, 1], [1, 0.5])],
  },
  {
    op: "LayerNormalization",
    opset: 17,
    shows: "statistics have the stash type",
    attrs: { stash_type: 16, axis: 0, epsilon: { float: 0 } },
    inputs: [of("float16", [2], [1, 3]), of("float16", [1], [1])],
    outputs: [of("float16", [2], [-1, 1]), of("bfloat16", [1], [2]), undefined],
  },
  {
    op: "LayerNormalization",
    opset: 17,
    shows: "a constant row gives zeros",
    inputs: [x, ones],
    outputs: [of("float32", [2, 2], [-1, 1, 0, 0])],
    tolerance: 1e-5,
  },
  {
    op: "LayerNormalization",
    opset: 17,
    shows: "a scale that does not broadcast is refused",
    inputs: [x, of("float32", [3], [1, 1, 1])],
    throws: /Scale must broadcast to X \[2,2\], got \[3\]/,
  },
  {
    op: "RMSNormalization",
    opset: 23,
    shows: "the output has the type of the scale",
    attrs: { epsilon: { float: 0 } },
    inputs: [of("float16", [1, 2], [3, 3]), of("float32", [2], [1, 2])],
    outputs: [of("float32", [1, 2], [1, 2])],
  },
  {
    op: "RMSNormalization",
    opset: 23,
    shows: "an axis outside the rank is refused",
    attrs: { axis: 2 },
    inputs: [x, ones],
    throws: /axis must lie in \[-2, 1\] for rank 2, got 2/,
  },
];
