import { of, type OpCase } from "./shared/case.js";

const domain = "com.microsoft";

export const cases: readonly OpCase[] = [
  {
    op: "Gelu",
    domain,
    opset: 1,
    shows: "the exact function, down to its tail",
    inputs: [of("float32", [4], [0, 1, -1, -6])],
    outputs: [of("float32", [4], [0, 0.8413447460685429, -0.15865525393145707, -5.919525952447041e-9])],
    tolerance: 1e-7,
  },
  {
    op: "BiasGelu",
    domain,
    opset: 1,
    shows: "the bias is added along the last dimension",
    inputs: [of("float64", [2, 2], [0, 0, 1, 1]), of("float64", [2], [1, -1])],
    outputs: [of("float64", [2, 2], [0.8413447460685429, -0.15865525393145707, 1.9544997361036416, 0])],
    tolerance: 1e-12,
  },
  {
    op: "FastGelu",
    domain,
    opset: 1,
    shows: "without a bias; the approximation differs from the exact function",
    inputs: [of("float32", [2], [1, -1])],
    outputs: [of("float32", [2], [0.8411919906082768, -0.15880800939172324])],
    tolerance: 1e-6,
  },
  {
    op: "QuickGelu",
    domain,
    opset: 1,
    shows: "alpha scales inside the sigmoid",
    attrs: { alpha: { float: 1 } },
    inputs: [of("float32", [3], [0, 1, -1000])],
    outputs: [of("float32", [3], [0, 0.7310585786300049, -0])],
    tolerance: 1e-7,
  },
  {
    op: "BiasGelu",
    domain,
    opset: 1,
    shows: "a bias of another length is refused",
    inputs: [of("float32", [1, 2], [1, 2]), of("float32", [3], [1, 2, 3])],
    throws: /the bias must have the length of the input's last dimension, got 3 and 2/,
  },
];
