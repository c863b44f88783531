/** Activation functions on WASM, on floats. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { scaledSigmoid } from "../shared/wasm/activations.js";
import { apply, elementwise, type Expression, number, operand, type Operation } from "../shared/wasm/elementwise.js";
import { Gelu, HardSigmoid, HardSwish, Mish, Relu, Sigmoid, Softplus, Softsign, SwiGLU, Swish } from "./op.js";

const unary = (op: typeof Relu, operation: Operation): WasmKernel =>
  elementwise([op], ({ inputs: { X }, outputs: { Y } }) => ({ output: Y, value: apply(operation, operand(X)) }));

/** max(0, min(1, alpha·x + beta)). */
const hardSigmoidOf = (x: Expression, alpha: number, beta: number): Expression =>
  apply(
    "maximum",
    apply("minimum", apply("add", apply("multiply", x, number(alpha)), number(beta)), number(1)),
    number(0),
  );

/** max(0, x). */
export const relu: WasmKernel = unary(Relu, "relu");

/** 1 / (1 + e^(−x)). */
export const sigmoid: WasmKernel = unary(Sigmoid, "sigmoid");

/** ln(1 + e^x). */
export const softplus: WasmKernel = unary(Softplus, "softplus");

/** x·Φ(x), or its approximation by tanh. */
export const gelu: WasmKernel = elementwise([Gelu], ({ inputs: { X }, outputs: { Y }, attrs: { approximate } }) => ({
  output: Y,
  value: apply(approximate === "tanh" ? "geluTanh" : "gelu", operand(X)),
}));

/** x·sigmoid(alpha·x). */
export const swish: WasmKernel = elementwise([Swish], ({ inputs: { X }, outputs: { Y }, attrs: { alpha } }) => ({
  output: Y,
  value: scaledSigmoid(operand(X), alpha),
}));

/** A·sigmoid(alpha·A)·B. */
export const swiglu: WasmKernel = elementwise([SwiGLU], ({ inputs: { A, B }, outputs: { Y }, attrs: { alpha } }) => ({
  output: Y,
  value: apply("multiply", scaledSigmoid(operand(A), alpha), operand(B)),
}));

/** max(0, min(1, alpha·x + beta)). */
export const hardSigmoid: WasmKernel = elementwise(
  [HardSigmoid],
  ({ inputs: { X }, outputs: { Y }, attrs: { alpha, beta } }) => ({
    output: Y,
    value: hardSigmoidOf(operand(X), alpha, beta),
  }),
);

/** x·max(0, min(1, x/6 + ½)). */
export const hardSwish: WasmKernel = elementwise([HardSwish], ({ inputs: { X }, outputs: { Y } }) => {
  const x = operand(X);
  return { output: Y, value: apply("multiply", x, hardSigmoidOf(x, 1 / 6, 0.5)) };
});

/** x·tanh(softplus(x)). */
export const mish: WasmKernel = elementwise([Mish], ({ inputs: { X }, outputs: { Y } }) => {
  const x = operand(X);
  return { output: Y, value: apply("multiply", x, apply("tanh", apply("softplus", x))) };
});

/** x / (1 + |x|). */
export const softsign: WasmKernel = elementwise([Softsign], ({ inputs: { input }, outputs: { output } }) => {
  const x = operand(input);
  return { output, value: apply("divide", x, apply("add", apply("absolute", x), number(1))) };
});
