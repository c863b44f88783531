import { of, type OpCase } from "./shared/case.js";

const domain = "com.microsoft";

export const cases: readonly OpCase[] = [
  {
    op: "SkipLayerNormalization",
    domain,
    opset: 1,
    shows: "a skip without a batch; mean, inverse deviation and the sum are handed out",
    attrs: { epsilon: { float: 0 } },
    inputs: [
      of("float32", [2, 1, 2], [1, 2, 3, 6]),
      of("float32", [1, 2], [1, 2]),
      of("float32", [2], [2, 2]),
      of("float32", [2], [1, 0]),
      of("float32", [2], [0, 0]),
    ],
    outputs: [
      of("float32", [2, 1, 2], [-1, 2, -1, 2]),
      of("float32", [2, 1, 1], [3, 6]),
      of("float32", [2, 1, 1], [1, 0.5]),
      of("float32", [2, 1, 2], [2, 4, 4, 8]),
    ],
    tolerance: 1e-6,
  },
  {
    op: "SkipSimplifiedLayerNormalization",
    domain,
    opset: 1,
    shows: "no mean is taken off; only the sum is asked for beside the output",
    attrs: { epsilon: { float: 0 } },
    inputs: [of("float16", [1, 2], [3, 1]), of("float16", [1, 2], [0, 3]), of("float16", [2], [1, 2])],
    outputs: [of("float16", [1, 2], [0.8486328125, 2.26171875]), undefined, undefined, of("float16", [1, 2], [3, 4])],
    tolerance: 1e-3,
  },
  {
    op: "SkipLayerNormalization",
    domain,
    opset: 1,
    shows: "a skip of another length is refused",
    inputs: [of("float32", [1, 2, 1], [1, 2]), of("float32", [1, 3, 1], [1, 2, 3]), of("float32", [1], [1])],
    throws: /skip must have the shape of input \[1,2,1\], or 1 or nothing for its batch, got \[1,3,1\]/,
  },
];
