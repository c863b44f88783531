/** Activation functions on WebGPU, on floats in float32; Relu and PRelu also on whole numbers. */
import { isFloat } from "../shared/webgpu/types.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { elementwiseKernel } from "../shared/webgpu/elementwise.js";
import type { FunctionName } from "../shared/webgpu/functions.js";
import {
  Celu,
  Elu,
  Gelu,
  HardSigmoid,
  HardSwish,
  LeakyRelu,
  Mish,
  PRelu,
  Relu,
  Selu,
  Shrink,
  Sigmoid,
  Softplus,
  Softsign,
  SwiGLU,
  Swish,
  ThresholdedRelu,
} from "./op.js";

const unary = (op: typeof Sigmoid, name: string, expression: string, ...calls: readonly FunctionName[]): WebgpuKernel =>
  elementwiseKernel([op], ({ inputs: { X: x }, outputs: { Y: output } }) => ({
    name,
    output,
    inputs: { x },
    expression,
    calls,
  }));

/** max(0, x). */
export const relu: WebgpuKernel = elementwiseKernel([Relu], ({ inputs: { X: x }, outputs: { Y: output } }) => ({
  name: "relu",
  output,
  inputs: { x },
  expression: isFloat(x.type) ? "select(larger(x, 0.0), 0.0, x == 0.0)" : "max(x, 0)",
  calls: isFloat(x.type) ? ["larger"] : [],
}));

/** 1 / (1 + e^(−x)). */
export const sigmoid: WebgpuKernel = unary(Sigmoid, "sigmoid", "sigmoid(x)", "sigmoid");

/** ln(1 + e^x). */
export const softplus: WebgpuKernel = unary(Softplus, "softplus", "softplus(x)", "softplus");

/** x·max(0, min(1, x/6 + ½)). */
export const hardSwish: WebgpuKernel = unary(
  HardSwish,
  "hardSwish",
  "x * larger(0.0, smaller(1.0, x * 0.16666667 + 0.5))",
  "larger",
  "smaller",
);

/** x·tanh(softplus(x)). */
export const mish: WebgpuKernel = unary(
  Mish,
  "mish",
  "x * hyperbolicTangent(softplus(x))",
  "hyperbolicTangent",
  "softplus",
);

/** x / (1 + |x|). */
export const softsign: WebgpuKernel = elementwiseKernel(
  [Softsign],
  ({ inputs: { input: x }, outputs: { output } }) => ({
    name: "softsign",
    output,
    inputs: { x },
    expression: "x / (1.0 + abs(x))",
  }),
);

/** x·Φ(x), or its approximation by tanh. */
export const gelu: WebgpuKernel = elementwiseKernel(
  [Gelu],
  ({ inputs: { X: x }, outputs: { Y: output }, attrs: { approximate } }) => ({
    name: "gelu",
    output,
    inputs: { x },
    expression: approximate === "tanh" ? "geluByTangent(x)" : "gelu(x)",
    calls: [approximate === "tanh" ? "geluByTangent" : "gelu"],
  }),
);

/** x·sigmoid(alpha·x). */
export const swish: WebgpuKernel = elementwiseKernel(
  [Swish],
  ({ inputs: { X: x }, outputs: { Y: output }, attrs: { alpha } }) => ({
    name: "swish",
    output,
    inputs: { x },
    expression: "x * sigmoid(p.alpha * x)",
    calls: ["sigmoid"],
    parameters: { alpha: { float: alpha } },
  }),
);

/** A·sigmoid(alpha·A)·B. */
export const swiglu: WebgpuKernel = elementwiseKernel(
  [SwiGLU],
  ({ inputs: { A: a, B: b }, outputs: { Y: output }, attrs: { alpha } }) => ({
    name: "swiglu",
    output,
    inputs: { a, b },
    expression: "a * sigmoid(p.alpha * a) * b",
    calls: ["sigmoid"],
    parameters: { alpha: { float: alpha } },
  }),
);

/** x, or slope·x where x is negative. */
export const prelu: WebgpuKernel = elementwiseKernel(
  [PRelu],
  ({ inputs: { X: x, slope }, outputs: { Y: output } }) => ({
    name: "prelu",
    output,
    inputs: { x, slope },
    expression: x.type === "uint32" ? "x" : `select(slope * x, x, x >= ${isFloat(x.type) ? "0.0" : "0"})`,
  }),
);

/** An activation with alpha alone. */
const withAlpha = (
  op: typeof LeakyRelu,
  name: string,
  expression: string,
  ...calls: readonly FunctionName[]
): WebgpuKernel =>
  elementwiseKernel([op], ({ inputs: { X: x }, outputs: { Y: output }, attrs: { alpha } }) => ({
    name,
    output,
    inputs: { x },
    expression,
    calls,
    parameters: { alpha: { float: alpha } },
  }));

/** x, or alpha·x where x is negative. */
export const leakyRelu: WebgpuKernel = withAlpha(LeakyRelu, "leakyRelu", "select(p.alpha * x, x, x >= 0.0)");

/** x where it is above alpha, else 0. */
export const thresholdedRelu: WebgpuKernel = withAlpha(
  ThresholdedRelu,
  "thresholdedRelu",
  "select(0.0, x, x > p.alpha)",
);

/** x, or alpha·(e^x − 1) where x is not positive. */
export const elu: WebgpuKernel = withAlpha(
  Elu,
  "elu",
  "select(p.alpha * exponentialLess1(x), x, x > 0.0)",
  "exponentialLess1",
);

/** max(0, x) + min(0, alpha·(e^(x/alpha) − 1)). */
export const celu: WebgpuKernel = withAlpha(
  Celu,
  "celu",
  "larger(0.0, x) + smaller(0.0, p.alpha * exponentialLess1(x / p.alpha))",
  "larger",
  "smaller",
  "exponentialLess1",
);

/** gamma·x, or gamma·alpha·(e^x − 1) where x is not positive. */
export const selu: WebgpuKernel = elementwiseKernel(
  [Selu],
  ({ inputs: { X: x }, outputs: { Y: output }, attrs: { alpha, gamma } }) => ({
    name: "selu",
    output,
    inputs: { x },
    expression: "p.gamma * select(p.alpha * exponentialLess1(x), x, x > 0.0)",
    calls: ["exponentialLess1"],
    parameters: { alpha: { float: alpha }, gamma: { float: gamma } },
  }),
);

/** max(0, min(1, alpha·x + beta)). */
export const hardSigmoid: WebgpuKernel = elementwiseKernel(
  [HardSigmoid],
  ({ inputs: { X: x }, outputs: { Y: output }, attrs: { alpha, beta } }) => ({
    name: "hardSigmoid",
    output,
    inputs: { x },
    expression: "larger(0.0, smaller(1.0, p.alpha * x + p.beta))",
    calls: ["larger", "smaller"],
    parameters: { alpha: { float: alpha }, beta: { float: beta } },
  }),
);

/** x + bias below −lambd, x − bias above lambd, 0 between. */
export const shrink: WebgpuKernel = elementwiseKernel(
  [Shrink],
  ({ inputs: { input: x }, outputs: { output }, attrs: { bias, lambd } }) =>
    isFloat(x.type)
      ? {
          name: "shrink",
          output,
          inputs: { x },
          expression: "select(select(0.0, x - p.bias, x > p.lambd), x + p.bias, x < -p.lambd)",
          parameters: { bias: { float: bias }, lambd: { float: lambd } },
        }
      : "whole numbers are shrunk exactly",
);
