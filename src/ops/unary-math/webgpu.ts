/** Functions of one operand on WebGPU: floats in float32, whole numbers of 32 bits and less as they wrap. */
import type { ElementType } from "../../tensor/element-type.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { elementwiseKernel } from "../shared/webgpu/elementwise.js";
import type { FunctionName } from "../shared/webgpu/functions.js";
import { isFloat } from "../shared/webgpu/types.js";
import { Abs, Ceil, Cos, Erf, Exp, Floor, Log, Neg, Reciprocal, Round, Sign, Sin, Sqrt, Tan, Tanh } from "./op.js";

/** Of operators whose operands ONNX calls X and Y. */
const capital = (
  op: typeof Abs,
  name: string,
  expression: (type: ElementType) => string,
  ...calls: readonly FunctionName[]
): WebgpuKernel =>
  elementwiseKernel([op], ({ inputs: { X: x }, outputs: { Y: output } }) => ({
    name,
    output,
    inputs: { x },
    expression: expression(x.type),
    calls,
  }));

/** Of operators whose operands ONNX calls input and output. */
const small = (op: typeof Tanh, name: string, expression: string, ...calls: readonly FunctionName[]): WebgpuKernel =>
  elementwiseKernel([op], ({ inputs: { input: x }, outputs: { output } }) => ({
    name,
    output,
    inputs: { x },
    expression,
    calls,
  }));

/** |X|. */
export const absolute: WebgpuKernel = capital(Abs, "absolute", () => "abs(x)");

/** −X: of floats the sign's bit, also of zeros and NaN. */
export const negate: WebgpuKernel = capital(Neg, "negate", (type) =>
  isFloat(type) ? "bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u)" : "-x",
);

/** −1, 0 or 1; NaN stays. */
export const sign: WebgpuKernel = elementwiseKernel([Sign], ({ inputs: { input: x }, outputs: { output } }) => {
  const unsigned = x.type.startsWith("u");
  const whole = unsigned ? "min(x, 1u)" : "sign(x)";
  return {
    name: "sign",
    output,
    inputs: { x },
    expression: isFloat(x.type) ? "select(select(select(0.0, -1.0, x < 0.0), 1.0, x > 0.0), x, isNan(x))" : whole,
    calls: isFloat(x.type) ? ["isNan"] : [],
  };
});

/** The greatest integer that is not above. */
export const floor: WebgpuKernel = capital(Floor, "floor", () => "floor(x)");

/** The least integer that is not below. */
export const ceiling: WebgpuKernel = capital(Ceil, "ceiling", () => "ceil(x)");

/** The nearest integer, ties to even. */
export const round: WebgpuKernel = capital(Round, "round", () => "round(x)");

/** 1 / X. */
export const reciprocal: WebgpuKernel = capital(Reciprocal, "reciprocal", () => "1.0 / x");

/** Square root. */
export const squareRoot: WebgpuKernel = capital(
  Sqrt,
  "squareRoot",
  () => "select(sqrt(x), notANumber(), x < 0.0)",
  "notANumber",
);

/** Sine. */
export const sine: WebgpuKernel = small(Sin, "sine", "sine(x)", "sine");

/** Cosine. */
export const cosine: WebgpuKernel = small(Cos, "cosine", "cosine(x)", "cosine");

/** Tangent. */
export const tangent: WebgpuKernel = small(Tan, "tangent", "sine(x) / cosine(x)", "sine", "cosine");

/** Exponential. */
export const exponential: WebgpuKernel = small(Exp, "exponential", "exponential(x)", "exponential");

/** Natural logarithm. */
export const logarithm: WebgpuKernel = small(Log, "logarithm", "logarithm(x)", "logarithm");

/** Hyperbolic tangent. */
export const hyperbolicTangent: WebgpuKernel = small(
  Tanh,
  "hyperbolicTangent",
  "hyperbolicTangent(x)",
  "hyperbolicTangent",
);

/** The error function. */
export const errorFunction: WebgpuKernel = elementwiseKernel([Erf], ({ inputs: { input: x }, outputs: { output } }) =>
  isFloat(x.type)
    ? { name: "errorFunction", output, inputs: { x }, expression: "errorFunction(x)", calls: ["errorFunction"] }
    : "whole numbers are truncated",
);
